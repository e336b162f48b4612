// The output parser: every cut of a text gives the same totals, nothing of a marker or a stop string leaks, arguments
// are JSON.  Outputs come from the goldens, from the examples of the specification, and from a generator of hostile
// text.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "golden_rows.h"
#include "parsed_output.h"
#include "text/prompt_encoding.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"

namespace deepinfer {
namespace {

OutputParserOptions options(OutputStart start, bool tools, std::vector<std::string> stop = {}) {
  OutputParserOptions out;
  out.start = start;
  out.parse_tool_calls = tools;
  out.stop = std::move(stop);
  return out;
}

std::string open_calls(const std::string& name) {
  return "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"" + name + "\">\n";
}
std::string parameter(const std::string& name, const std::string& value, bool string = true) {
  return "<｜DSML｜ parameter name=\"" + name + "\" string=\"" + (string ? "true" : "false") + "\">" + value +
         "</｜DSML｜ parameter>\n";
}
const std::string kCloseInvoke = "</｜DSML｜ invoke>\n";
const std::string kCloseCalls = "</｜DSML｜ calls>";

void expect_same_for_every_cut(const OutputParserOptions& how, const std::string& text, const ParsedOutput& expected) {
  EXPECT_EQ(parse_pieces(how, {text}), expected);
  EXPECT_EQ(parse_bytewise(how, text), expected);
  for (size_t cut = 1; cut < text.size(); ++cut) {
    const std::string_view view = text;
    const ParsedOutput parts = parse_pieces(how, {view.substr(0, cut), view.substr(cut)});
    if (!(parts == expected)) {
      ADD_FAILURE() << "cut at " << cut << ": " << parts << "\nexpected " << expected;
      return;
    }
  }
}

TEST(OutputParser, ExamplesOfTheSpecification) {
  const std::string call = open_calls("f") + parameter("a", "x\"y\nz") + parameter("n", "[1, 2]", false) +
                           kCloseInvoke + "<｜DSML｜ invoke name=\"g\">\n" + kCloseInvoke + kCloseCalls;
  struct Case {
    OutputParserOptions how;
    std::string text;
    ParsedOutput expected;
  };
  const std::vector<Case> cases = {
      {options(OutputStart::kReasoning, true),
       "\n\nlet me think\n\n</think>\n\nSure." + call + "junk",
       {"let me think", "Sure.", {{"f", R"({"a": "x\"y\nz", "n": [1, 2]})", true}, {"g", "{}", true}}, 2, -1}},
      {options(OutputStart::kReasoning, false), "abc</think>ok </think> more", {"abc", "ok  more", {}, 0, -1}},
      {options(OutputStart::kContent, true), "a <b, <｜DS", {"", "a <b, <｜DS", {}, 0, -1}},
      {options(OutputStart::kContent, false, {"STOP"}), "hello STOP tail", {"", "hello ", {}, 0, 0}},
      {options(OutputStart::kContent, true),
       open_calls("f") + "<｜DSML｜ parameter name=\"a\" string=\"true\">par",
       {"", "", {{"f", R"({"a": "par)", false}}, 1, -1}},
      {options(OutputStart::kTools, true),
       "<｜DSML｜ invoke name=\"f\">\n" + parameter("a", "tr", false) + kCloseInvoke + kCloseCalls,
       {"", "", {{"f", R"({"a": tr})", true}}, 1, -1}},
      {options(OutputStart::kReasoning, true),
       "reason <｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n" + kCloseInvoke + kCloseCalls,
       {"reason ", "", {{"f", "{}", true}}, 1, -1}},
      // Names of parameters end at `" string="`, not at the first space (the reference's bug).
      {options(OutputStart::kTools, true),
       "<｜DSML｜ invoke name=\"f\">\n" + parameter("shipping address", "v") + parameter(" string= mode ", "w") +
           parameter("", "x") + kCloseInvoke,
       {"", "", {{"f", R"({"shipping address": "v", " string= mode ": "w", "": "x"})", true}}, 1, -1}},
      // Continued texts keep their line feeds.
      {options(OutputStart::kReasoningContinued, false), "\na</think>\nb", {"\na", "b", {}, 0, -1}},
      {options(OutputStart::kContentContinued, false), "\na</think>\nb", {"", "\na\nb", {}, 0, -1}},
      {options(OutputStart::kContent, false), "\n\na\n\n", {"", "a\n\n", {}, 0, -1}},
      // A line feed that breaks a partial marker belongs to the text.
      {options(OutputStart::kReasoning, false), "a\n</thi\n</think>b", {"a\n</thi\n", "b", {}, 0, -1}},
      {options(OutputStart::kReasoning, false), "a<\n\n</think>b", {"a<\n", "b", {}, 0, -1}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    expect_same_for_every_cut(one.how, one.text, one.expected);
  }
}

// Every output of the goldens: one piece, every cut in two, byte by byte.
TEST(OutputParser, GoldenOutputsForEveryCut) {
  size_t outputs = 0;
  for (const Json& row : golden_rows("stream_decode.jsonl")) {
    if (!row.contains("model_output_chunks")) continue;
    SCOPED_TRACE(row["name"].get<std::string>());
    const std::string body = row["request"].dump();
    InferenceRequest request;
    if (row["protocol"] == "chat") {
      request = std::get<InferenceRequest>(parse_chat_completions(body));
    } else if (row["protocol"] == "messages") {
      request = std::get<InferenceRequest>(parse_messages(body));
    } else {
      request = std::get<ResponsesRequest>(parse_responses(body)).inference;
    }
    const OutputParserOptions how = request.parser_options(encode_prompt(request.conversation)->start);
    std::string text;
    for (const Json& chunk : row["model_output_chunks"]) text += chunk.get<std::string>();
    ++outputs;
    if (!how.json_output) {
      expect_same_for_every_cut(how, text, parse_pieces(how, {text}));
      continue;
    }
    // In JSON mode each piece of prose is one space: all but the spaces must agree.
    const auto without_spaces = [](std::string content) {
      std::erase(content, ' ');
      return content;
    };
    const std::string expected = without_spaces(parse_pieces(how, {text}).content);
    EXPECT_EQ(without_spaces(parse_bytewise(how, text).content), expected);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view view = text;
      EXPECT_EQ(without_spaces(parse_pieces(how, {view.substr(0, cut), view.substr(cut)}).content), expected) << cut;
    }
  }
  EXPECT_GT(outputs, 140u);
}

// O-01: no byte of a closing tag ends up in an argument, wherever the stream is cut, in both spellings of the tags.
TEST(OutputParser, ClosingTagsNeverLeakIntoArguments) {
  for (const std::string space : {"", " "}) {
    const std::string head = "<｜DSML｜" + space + (space.empty() ? "tool_calls>" : "calls>") + "\n<｜DSML｜" + space +
                             "invoke name=\"f\">\n<｜DSML｜" + space + "parameter name=\"location\" string=\"true\">";
    const std::string tail = "</｜DSML｜" + space + "parameter>\n</｜DSML｜" + space + "invoke>\n";
    const OutputParserOptions how = options(OutputStart::kContent, true);
    expect_same_for_every_cut(how, head + "Paris" + tail, {"", "", {{"f", R"({"location": "Paris"})", true}}, 1, -1});
    // While the stream is still running, what was released is always a prefix of the final arguments.
    ParsedOutputCollector collector(how);
    for (const char c : head + "Paris" + tail) {
      collector.push(std::string_view(&c, 1));
      if (collector.so_far().calls.empty()) continue;
      EXPECT_TRUE(std::string(R"({"location": "Paris"})").starts_with(collector.so_far().calls[0].arguments));
    }
  }
}

// O-02: arguments stream while a long value arrives; at most the length of a marker is held back.
TEST(OutputParser, ArgumentsStreamWhileTheyArrive) {
  ParsedOutputCollector collector(options(OutputStart::kContent, true));
  collector.push(open_calls("write"));
  ASSERT_EQ(collector.so_far().calls.size(), 1u);  // name known before any argument
  collector.push("<｜DSML｜ parameter name=\"text\" string=\"true\">");
  std::string sent;
  for (int i = 0; i < 4000; ++i) {
    const std::string piece = "ab<é";
    collector.push(piece);
    sent += piece;
    EXPECT_GE(collector.so_far().calls[0].arguments.size() + 16, sent.size());
  }
  collector.push("</｜DSML｜ parameter>\n" + kCloseInvoke + kCloseCalls);
  const ParsedOutput parsed = collector.finish();
  EXPECT_EQ(Json::parse(parsed.calls.at(0).arguments)["text"], sent);
}

// O-03: a repeated closing tag is not shown; text behind a finished block of calls is dropped (as the reference does).
TEST(OutputParser, RepeatedClosingTagIsDropped) {
  const std::string text = open_calls("f") + kCloseInvoke + kCloseCalls + kCloseCalls + "Done.";
  expect_same_for_every_cut(options(OutputStart::kContent, true), text, {"", "", {{"f", "{}", true}}, 1, -1});
}

// O-05: reasoning that is never closed stays reasoning, in whole.
TEST(OutputParser, UnclosedReasoningStaysReasoning) {
  expect_same_for_every_cut(options(OutputStart::kReasoning, true), "Good morning!\n\n",
                            {"Good morning!\n\n", "", {}, 0, -1});
}

// O-06: the start comes from the prompt: with thinking off nothing waits for `</think>` and calls are seen.
TEST(OutputParser, StartsWhereThePromptEnds) {
  Conversation conversation;
  conversation.messages.push_back({.role = Role::kUser, .content = "q"});
  conversation.tools.push_back({.name = "f"});
  conversation.thinking = false;
  const RenderedPrompt prompt = encode_prompt(conversation).value();
  ASSERT_TRUE(prompt.text.ends_with("</think>"));
  const std::string text =
      "Hi" + open_calls("f") + kCloseInvoke + "<｜DSML｜ invoke name=\"f\">\n" + kCloseInvoke + kCloseCalls;
  expect_same_for_every_cut(options(prompt.start, true), text,
                            {"", "Hi", {{"f", "{}", true}, {"f", "{}", true}}, 2, -1});
  conversation.thinking = true;
  EXPECT_EQ(encode_prompt(conversation)->start, OutputStart::kReasoning);
  conversation.thinking = false;
  conversation.tool_choice = ToolChoice::kRequired;
  EXPECT_EQ(encode_prompt(conversation)->start, OutputStart::kTools);
}

// O-12: no byte of a matched stop string goes out, also not while it could still become one.
TEST(OutputParser, StopStringsNeverLeak) {
  struct Case {
    std::vector<std::string> stop;
    std::string text;
    std::string content;
    int matched;
  };
  const std::vector<Case> cases = {
      {{"DEFGHIJ"}, "ABCDEFGHIJKL", "ABC", 0},
      {{"DEFGHIJ"}, "ABCDEFGHIXDEFGHIJ", "ABCDEFGHIX", 0},
      {{"abcabd"}, "abcabcabd!", "abc", 0},    // overlaps itself
      {{"bcd", "abcde"}, "xabcdef", "xa", 0},  // the first to be complete wins
      {{"abcde", "bcd"}, "xabcdef", "xa", 1},
      {{"cde", "abcde"}, "xabcdef", "xab", 0},  // complete at the same byte: the order of the list
      {{"abcde", "cde"}, "xabcdef", "x", 0},
      {{"é"}, "caf\xC3\xA8 caf\xC3\xA9!", "caf\xC3\xA8 caf", 0},  // shares a byte with another character
      {{"\n\n"}, "a\nb\n\nc", "a\nb", 0},
      {{"", "x"}, "abx", "ab", 1},  // empty ones are ignored
      {{"aaa"}, "aabaabaaab", "aabaab", 0},
      {{"zz"}, "a z", "a z", -1},
      {{"STOP"}, "hello ST", "hello ST", -1},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    const OutputParserOptions how = options(OutputStart::kContent, true, one.stop);
    expect_same_for_every_cut(how, one.text, {"", one.content, {}, 0, one.matched});
    ParsedOutputCollector collector(how);
    for (const char c : one.text) {
      collector.push(std::string_view(&c, 1));
      EXPECT_TRUE(one.content.starts_with(collector.so_far().content));
    }
    EXPECT_EQ(collector.running(), one.matched < 0);
  }
}

TEST(OutputParser, StopStringsAreForContentOnly) {
  const OutputParserOptions how = options(OutputStart::kReasoning, true, {"STOP"});
  expect_same_for_every_cut(how, "a STOP b</think>c" + open_calls("f") + parameter("q", "STOP") + kCloseInvoke,
                            {"a STOP b", "c", {{"f", R"({"q": "STOP"})", true}}, 1, -1});
}

TEST(OutputParser, EventsSayWhichInputTheyComeFrom) {
  OutputParser parser(options(OutputStart::kReasoning, false));
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  const auto sink = [&](const OutputEvent& event) { ranges.emplace_back(event.input_begin, event.input_end); };
  parser.push("\nab", sink);
  parser.push("</thi", sink);
  parser.push("nk>\ncd", sink);
  parser.finish(sink);
  EXPECT_EQ(ranges, (std::vector<std::pair<uint64_t, uint64_t>>{{1, 3}, {12, 14}}));
}

// ---- properties ---------------------------------------------------------------------------------------------------

// Texts made of what the parser reacts to, of near misses, and of arbitrary bytes.
rc::Gen<std::string> hostile_text() {
  static const std::vector<std::string> fragments = {"\n",
                                                     "\n\n",
                                                     " ",
                                                     "a",
                                                     "bc",
                                                     "é",
                                                     "🦙",
                                                     "\"",
                                                     "\\",
                                                     "\x01",
                                                     "\t",
                                                     "<",
                                                     "</",
                                                     "<think>",
                                                     "</think>",
                                                     "</thi",
                                                     "<｜DSML｜",
                                                     "</｜DSML｜",
                                                     "｜DSML｜",
                                                     "<｜DS",
                                                     " calls>",
                                                     "tool_calls>",
                                                     " invoke name=\"",
                                                     "f\">\n",
                                                     " parameter name=\"",
                                                     "q",
                                                     "\" string=\"",
                                                     "true\">",
                                                     "false\">",
                                                     "[1, {\"a\": null}]",
                                                     "</｜DSML｜ parameter>\n",
                                                     "</｜DSML｜ invoke>\n",
                                                     "</｜DSML｜ calls>",
                                                     "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n",
                                                     "STOP",
                                                     "ST",
                                                     "OP",
                                                     "{",
                                                     "}",
                                                     "[",
                                                     "```json\n",
                                                     "```\n",
                                                     "\n```",
                                                     "\x80",
                                                     "\xEF\xBD",
                                                     "\xC3"};
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(fragments)),
                      [](const std::vector<std::string>& parts) {
                        std::string text;
                        for (const std::string& part : parts) text += part;
                        return text;
                      });
}

OutputParserOptions any_options(bool json) {
  OutputParserOptions how;
  how.start = *rc::gen::element(OutputStart::kContent, OutputStart::kReasoning, OutputStart::kContentContinued,
                                OutputStart::kReasoningContinued, OutputStart::kTools);
  how.parse_tool_calls = *rc::gen::arbitrary<bool>();
  how.json_output = json;
  how.stop =
      *rc::gen::element(std::vector<std::string>{}, std::vector<std::string>{"STOP"},
                        std::vector<std::string>{"aSTO", "TOP", "\n\n"}, std::vector<std::string>{"</think>x", "bc"});
  return how;
}

std::vector<std::string_view> any_pieces(const std::string& text) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t length = *rc::gen::inRange<size_t>(1, 12);
    pieces.push_back(std::string_view(text).substr(at, length));
    at += length;
  }
  return pieces;
}

TEST(OutputParserProperty, ChunkingDoesNotMatter) {
  EXPECT_TRUE(rc::check("any chunking gives the same joined events", [] {
    const std::string text = *hostile_text();
    const OutputParserOptions how = any_options(false);
    const ParsedOutput whole = parse_pieces(how, {text});
    RC_ASSERT(parse_pieces(how, any_pieces(text)) == whole);
    RC_ASSERT(parse_bytewise(how, text) == whole);
  }));
}

TEST(OutputParserProperty, JsonModeDiffersInSpacesOnly) {
  EXPECT_TRUE(rc::check("JSON mode: any chunking gives the same but for spaces", [] {
    const std::string text = *hostile_text();
    const OutputParserOptions how = any_options(true);
    ParsedOutput whole = parse_pieces(how, {text});
    ParsedOutput parts = parse_pieces(how, any_pieces(text));
    std::erase(whole.content, ' ');
    std::erase(parts.content, ' ');
    RC_ASSERT(parts == whole);
  }));
}

TEST(OutputParserProperty, StringArgumentsAreJson) {
  EXPECT_TRUE(rc::check("names and string values of any bytes give JSON that reads back", [] {
    const auto plain = [](std::string text) {
      // What ends a value or a name cannot be inside one; the rest can be anything.
      for (const std::string marker : {"｜", "\" string=\""}) {
        for (size_t at = text.find(marker); at != std::string::npos; at = text.find(marker))
          text.erase(at, marker.size());
      }
      return text;
    };
    const std::string key = plain(*rc::gen::element<std::string>("q", "a b", "", "q\"x", "k\\", "\n", "\x02", "é"));
    std::string value = plain(*rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127)));
    OutputParserOptions how;
    how.start = OutputStart::kTools;
    how.parse_tool_calls = true;
    const std::string text = "invoke name=\"f\">" + parameter(key, value) + kCloseInvoke;
    const ParsedOutput parsed = parse_pieces(how, any_pieces(text));
    RC_ASSERT(parsed.calls.size() == 1u);
    const Result<Json> arguments = parse_json(parsed.calls[0].arguments);
    RC_ASSERT(arguments.ok());
    RC_ASSERT((*arguments)[key] == value);
  }));
}

}  // namespace
}  // namespace deepinfer
