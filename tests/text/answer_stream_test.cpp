// Answers from tokens: characters split over tokens (O-11), bytes that are no UTF-8 (O-14), ids of calls, and request
// rules that no golden row shows.
#include "text/protocol/answer_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "text/json_text.h"
#include "text/prompt_encoding.h"
#include "text/protocol/call_ids.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/custom_tool_input.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> loaded = [] {
    auto result = Tokenizer::load(std::string(DEEPINFER_TEST_MODEL) + "/tokenizer.json");
    return result.ok() ? std::move(*result) : nullptr;
  }();
  return *loaded;
}

std::vector<std::unique_ptr<AnswerWriter>> all_writers(bool stream) {
  InferenceRequest request;
  request.stream = stream;
  ResponsesRequest responses =
      std::get<ResponsesRequest>(parse_responses(R"({"model":"DeepSeek-V4.1-Flash","input":"q"})"));
  std::vector<std::unique_ptr<AnswerWriter>> writers;
  writers.push_back(make_chat_completions_writer(request));
  writers.push_back(make_responses_writer(responses));
  writers.push_back(make_messages_writer(request));
  return writers;
}

int32_t byte_token(unsigned char byte) {
  for (int32_t id = 0; id < tokenizer().vocabulary(); ++id) {
    if (!tokenizer().is_added(id) && tokenizer().bytes(id) == std::string_view(reinterpret_cast<char*>(&byte), 1))
      return id;
  }
  return -1;
}

// O-11: tokens that hold parts of characters give whole characters, and no token is lost or counted twice.
TEST(TokenPieces, NeverTearsACharacter) {
  const std::string text = "a🦙ď中é!";
  TokenPieces pieces(tokenizer());
  std::string joined;
  int64_t tokens = 0;
  size_t logprobs = 0;
  for (const char c : text) {
    const int32_t id = byte_token(static_cast<unsigned char>(c));
    ASSERT_GE(id, 0);
    const TokenLogprobs entry{std::string(1, c), -1.0f, {}};
    pieces.add(id, &entry);
    const AnswerPiece piece = pieces.take();
    EXPECT_EQ(piece.text.find("\xEF\xBF\xBD"), std::string::npos);
    EXPECT_EQ(piece.text.empty(), piece.tokens == 0);
    joined += piece.text;
    tokens += piece.tokens;
    logprobs += piece.logprobs.size();
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(tokens, static_cast<int64_t>(text.size()));
  EXPECT_EQ(logprobs, text.size());
}

// O-14: a lone byte that is no character: every event and the final object are valid JSON with U+FFFD, the byte itself
// is in the log-probabilities.
TEST(AnswerStream, InvalidBytes) {
  for (auto& writer : all_writers(true)) {
    AnswerIdentity identity{"ID", "MODEL", "fp", 0, 1};
    OutputParserOptions options;
    AnswerStream stream(std::move(writer), options, false, identity);
    std::vector<std::string> events;
    const auto sink = [&](std::string_view, std::string_view data) { events.emplace_back(data); };
    stream.open({1, 0}, sink);
    TokenPieces pieces(tokenizer());
    for (const unsigned char byte : {0x41, 0x80, 0xC3, 0x42}) {
      const int32_t id = byte_token(byte);
      ASSERT_GE(id, 0);
      const TokenLogprobs entry{std::string(1, static_cast<char>(byte)), -0.5f, {{"\xFF", -HUGE_VALF}}};
      pieces.add(id, &entry);
      EXPECT_TRUE(stream.push(pieces.take(), sink));
    }
    EXPECT_TRUE(stream.push({"\xFF\xFEraw", 1, {}}, sink));  // a caller that does not decode
    stream.finish(
        AnswerEnd::kStop, [](std::string_view) { return int64_t{0}; }, 0, sink);
    for (const std::string& event : events) {
      if (event == "[DONE]") continue;
      EXPECT_TRUE(parse_json(event).ok()) << event;
    }
    EXPECT_TRUE(parse_json(stream.object()).ok());
    EXPECT_EQ(stream.answer().content,
              "A\xEF\xBF\xBD\xEF\xBF\xBD"
              "B\xEF\xBF\xBD\xEF\xBF\xBDraw");
    const Json logprobs = parse_json("[" + stream.answer().content_logprobs + "]").value();
    ASSERT_EQ(logprobs.size(), 4u);
    EXPECT_EQ(logprobs[1]["token"], "\\x80");
    EXPECT_EQ(logprobs[1]["bytes"], Json::parse("[128]"));
    EXPECT_EQ(logprobs[1]["top_logprobs"][0]["logprob"], -9999.0);
  }
}

TEST(CallIds, Form) {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const std::string plain = make_call_id(i, false, static_cast<uint64_t>(i));
    const std::string empty = make_call_id(i, true, static_cast<uint64_t>(i));
    std::string index = std::to_string(i);
    if (i < 10) index.insert(0, 1, '0');
    EXPECT_TRUE(plain.starts_with("call_" + index + "_"));
    EXPECT_TRUE(empty.starts_with("call_" + index + "_ET_"));
    EXPECT_EQ(plain.size(), 5 + index.size() + 1 + 24);
    EXPECT_FALSE(says_empty_thinking(plain)) << plain;
    EXPECT_TRUE(says_empty_thinking(empty));
    EXPECT_TRUE(seen.insert(plain).second);
  }
  for (const char* id : {"", "1", "call_", "call_ET_", "call_0_ET_", "toolu_00_ET_a", "call_00_xx_ET_"}) {
    EXPECT_FALSE(says_empty_thinking(id)) << id;
  }
}

TEST(CustomToolInput, DecodesWhateverTheCuts) {
  std::string arguments = "{\"input\": \"";
  const std::string text = "a\"b\\\n\t\r\b\f\x01é";
  append_json_escaped(arguments, text);
  arguments += "\"}";
  for (size_t cut = 1; cut <= arguments.size(); ++cut) {
    CustomToolInput input;
    std::string joined;
    for (size_t at = 0; at < arguments.size(); at += cut)
      joined += input.push(std::string_view(arguments).substr(at, cut));
    EXPECT_EQ(joined, text);
    EXPECT_EQ(input.text(), text);
  }
  CustomToolInput other;
  EXPECT_EQ(other.push("{\"path\": \"x\"}"), "{\"path\": \"x\"}");
}

std::string refusal(const std::string& more, const ProtocolOptions& options = {}) {
  const auto outcome = parse_chat_completions(
      R"({"model":"DeepSeek-V4.1-Flash","messages":[{"role":"user","content":"q"}])" + more + "}", options);
  const auto* error = std::get_if<RequestError>(&outcome);
  if (error == nullptr) return "";
  EXPECT_TRUE(parse_json(error->body()).ok());
  return error->message;
}

// O-15 (the reading side): no number outside a range passes, and the answer is valid JSON.
TEST(Requests, NumbersOutsideTheirRange) {
  for (const char* value : {"NaN", "1e999", "-1e-30", "\"NaN\"", "2.0000005", "[]"}) {
    EXPECT_NE(refusal(std::string(",\"temperature\":") + value), "") << value;
  }
  for (const char* value : {"0", "-0.0", "1e-50", "1.0001", "true"}) {
    EXPECT_NE(refusal(std::string(",\"top_p\":") + value), "") << value;
  }
  EXPECT_EQ(refusal(",\"temperature\":-0.0"), "");
  EXPECT_EQ(refusal(",\"temperature\":1e-40"), "");
}

TEST(Requests, ProfileExtended) {
  ProtocolOptions options;
  options.profile = Profile::kExtended;
  const auto parsed = [&](const std::string& more) {
    return std::get<InferenceRequest>(parse_chat_completions(
        R"({"model":"DeepSeek-V4.1-Flash","messages":[{"role":"developer","content":"d"},{"role":"user","content":"q"}])" +
            more + "}",
        options));
  };
  EXPECT_EQ(parsed("").conversation.messages[0].role, Role::kSystem);
  EXPECT_EQ(parsed(R"(,"max_completion_tokens":7)").max_tokens, 7u);
  EXPECT_EQ(parsed(R"(,"max_completion_tokens":7,"max_tokens":8)").max_tokens, 8u);
  EXPECT_EQ(parsed(R"(,"reasoning_effort":33)").conversation.effort.number, 33);
  EXPECT_NE(refusal(R"(,"reasoning_effort":101)", options), "");
  EXPECT_NE(refusal(R"(,"reasoning_effort":33)"), "");
}

TEST(Requests, ExtendedFieldsAreReadOrNamed) {
  ProtocolOptions extended;
  extended.profile = Profile::kExtended;
  const std::string head = R"({"model":"DeepSeek-V4.1-Flash","messages":[{"role":"user","content":"q"}],)";
  const std::string fields =
      R"("temperature":0.5,"top_p":0.25,"n":2,"top_k":-1,"min_p":0.125,"presence_penalty":1,"repetition_penalty":1.5,)"
      R"("logit_bias":{"7":-1},"stop_token_ids":[3],"ignore_eos":true,"min_tokens":2,"prompt_logprobs":0,"priority":-5,)"
      R"("timeout":1.5,"cache_salt":"s","max_completion_tokens":9,"chat_template_kwargs":{"enable_thinking":true},)"
      R"("user":"u","store":null,"metadata":{}})";
  const auto read = std::get<InferenceRequest>(parse_chat_completions(head + fields, extended));
  EXPECT_TRUE(read.conversation.thinking);
  EXPECT_EQ(read.temperature, 0.5f) << "explicit values count while thinking";
  EXPECT_EQ(read.top_p, 0.25f);
  EXPECT_EQ(read.max_tokens, 9u);
  const GenerationFields& generation = read.generation;
  EXPECT_EQ(generation.n, 2u);
  EXPECT_EQ(generation.top_k, 0);
  EXPECT_EQ(generation.min_p, 0.125f);
  EXPECT_EQ(generation.presence_penalty, 1);
  EXPECT_EQ(generation.repetition_penalty, 1.5f);
  EXPECT_EQ(generation.logit_bias.size(), 1u);
  EXPECT_EQ(generation.stop_token_ids, std::vector<int32_t>{3});
  EXPECT_TRUE(generation.ignore_eos);
  EXPECT_EQ(generation.min_tokens, 2u);
  EXPECT_EQ(generation.prompt_logprobs, 0);
  EXPECT_EQ(generation.priority, -5);
  EXPECT_EQ(generation.timeout.count(), 1500);
  EXPECT_EQ(generation.cache_salt, "s");
  EXPECT_EQ(read.ignored, (std::vector<std::string>{"user", "metadata"}));
  // The official API: overruled, ignored, and said so.
  const std::string official =
      R"("temperature":0.5,"top_p":0.25,"n":1,"top_k":"x","max_completion_tokens":9,"frequency_penalty":1})";
  const auto strict = std::get<InferenceRequest>(parse_chat_completions(head + official));
  EXPECT_EQ(strict.temperature, 1.0f);
  EXPECT_EQ(strict.ignored,
            (std::vector<std::string>{"temperature", "top_p", "top_k", "max_completion_tokens", "frequency_penalty"}));
}

// Members that nobody reads are named wherever they lie, once; what belongs to others (schemas, arguments) is not
// theirs to be searched.
TEST(Requests, UnknownMembersInside) {
  using Names = std::vector<std::string>;
  for (const Profile profile : {Profile::kDeepSeek, Profile::kExtended}) {
    ProtocolOptions options;
    options.profile = profile;
    const std::string model = R"({"model":"DeepSeek-V4.1-Flash",)";
    const auto chat = std::get<InferenceRequest>(parse_chat_completions(
        model +
            R"("messages":[{"role":"system","content":[{"type":"text","text":"json","cache_control":{}}]},)"
            R"({"role":"user","content":"a","name":"b"},{"role":"user","content":"c","name":"d","x":null},)"
            R"({"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","index":0,"extra":1,)"
            R"("function":{"name":"f","arguments":"{\"z\":1}","y":2}}]},{"role":"tool","tool_call_id":"1","content":""}],)"
            R"("thinking":{"type":"enabled","budget_tokens":5},"stream":true,"stream_options":{"include_obfuscation":true},)"
            R"("tools":[{"type":"function","cache_control":1,"function":{"name":"f","parameters":{"type":"object","q":1}}}],)"
            R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"w":1}}})",
        options));
    EXPECT_EQ(chat.ignored, (Names{"messages.content.cache_control", "messages.name", "messages.tool_calls.extra",
                                   "messages.tool_calls.function.y", "thinking.budget_tokens", "tools.cache_control",
                                   "response_format.json_schema.w", "stream_options.include_obfuscation"}));
    const auto messages = std::get<InferenceRequest>(parse_messages(
        model +
            R"("system":[{"type":"text","text":"s","cache_control":{}}],"messages":[{"role":"user","content":"a"},)"
            R"({"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},)"
            R"({"type":"tool_use","id":"1","name":"f","input":{"z":1}}]},{"role":"user","content":[{"type":"tool_result",)"
            R"("tool_use_id":"1","is_error":false,"content":[{"type":"text","text":"r","citations":[]}]}]}],)"
            R"("tools":[{"name":"f","input_schema":{"type":"object"},"strict":true}],)"
            R"("tool_choice":{"type":"auto","disable_parallel_tool_use":true},"output_config":{"format":{}}})",
        options));
    EXPECT_EQ(messages.ignored,
              (Names{"messages.content.is_error", "messages.content.content.citations", "system.cache_control",
                     "output_config.format", "tools.strict", "tool_choice.disable_parallel_tool_use"}));
    const auto responses = std::get<ResponsesRequest>(
        parse_responses(model + R"("input":[{"role":"user","content":[{"type":"input_text","text":"a","x":1}],"y":2}],)"
                                R"("reasoning":{"effort":"low","summary":"auto"},"text":{"verbosity":"low"}})",
                        options));
    EXPECT_EQ(responses.inference.ignored,
              (Names{"input.content.x", "input.y", "reasoning.summary", "text.verbosity"}));
  }
  std::string many = R"({"model":"DeepSeek-V4.1-Flash","messages":[{"role":"user","content":"a")";
  for (int i = 0; i < 1000; ++i) many += ",\"x" + std::to_string(i) + "\":1";
  EXPECT_EQ(std::get<InferenceRequest>(parse_chat_completions(many + "}]}")).ignored.size(), 64u);
}

// Messages' `any` calls a tool in the extended profile; the prompt is that of `auto` in both.
TEST(Requests, AnyTool) {
  const auto read = [](const std::string& choice, Profile profile) {
    ProtocolOptions options;
    options.profile = profile;
    return std::get<InferenceRequest>(
        parse_messages(R"({"model":"DeepSeek-V4.1-Flash","messages":[{"role":"user","content":"a"}],)"
                       R"("tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":")" +
                           choice + "\"}}",
                       options));
  };
  using Kind = OutputConstraint::Kind;
  EXPECT_EQ(read("any", Profile::kDeepSeek).constraint->kind, Kind::kToolCall);
  EXPECT_EQ(read("auto", Profile::kExtended).constraint->kind, Kind::kToolCall);
  const InferenceRequest any = read("any", Profile::kExtended);
  EXPECT_EQ(any.constraint->kind, Kind::kToolCallRequired);
  EXPECT_EQ(encode_prompt(any.conversation)->text, encode_prompt(read("auto", Profile::kDeepSeek).conversation)->text);
}

TEST(Requests, TemplateArguments) {
  for (const Profile profile : {Profile::kDeepSeek, Profile::kExtended}) {
    ProtocolOptions options;
    options.profile = profile;
    EXPECT_NE(refusal(R"(,"chat_template_kwargs":{"tokenize":true})", options), "");
    EXPECT_NE(refusal(R"(,"chat_template_kwargs":[])", options), "");
    EXPECT_NE(refusal(R"(,"chat_template_kwargs":{"thinking":"yes"})", options), "");
    EXPECT_EQ(refusal(R"(,"chat_template_kwargs":{"thinking":false})", options), "");
  }
  ProtocolOptions options;
  options.profile = Profile::kExtended;
  EXPECT_NE(refusal(R"(,"chat_template_kwargs":{"thinking":false},"thinking":{"type":"enabled"})", options), "");
}

// Late tools are hidden when tools are not shown, and with them the message that only existed to show them.
TEST(Requests, LateToolsAreHiddenWithTheOthers) {
  const std::string body =
      R"({"model":"DeepSeek-V4.1-Flash","thinking":{"type":"disabled"},"max_tokens":9,"messages":[{"role":"user","content":"q"},)"
      R"({"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_reference","name":"late"}}]},{"role":"user","content":"z"}],)"
      R"("tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"late","input_schema":{"type":"object"},"defer_loading":true}],)"
      R"("tool_choice":{"type":"none"}})";
  const auto request = std::get<InferenceRequest>(parse_messages(body));
  EXPECT_EQ(encode_prompt(request.conversation)->text,
            "<｜begin▁of▁sentence｜><｜User｜>q\n\nz<｜Assistant｜></think>");
  EXPECT_FALSE(request.constraint.has_value());
}

TEST(ServerSentEvents, Frames) {
  std::string out;
  append_server_sent_event(out, "", "[DONE]");
  append_server_sent_event(out, "ping", "{}");
  EXPECT_EQ(out, "data: [DONE]\n\nevent: ping\ndata: {}\n\n");
}

}  // namespace
}  // namespace deepinfer
