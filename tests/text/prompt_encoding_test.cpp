// encode_prompt without any protocol: the examples of docs/chat-encoding.md, user text that spells control tokens, and
// what is refused.
#include "text/prompt_encoding.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "text/protocol/chat_completions_request.h"

namespace deepinfer {
namespace {

const std::string kBegin = "<｜begin▁of▁sentence｜>";
const std::string kEnd = "<｜end▁of▁sentence｜>";
const std::string kUser = "<｜User｜>";
const std::string kAssistant = "<｜Assistant｜>";

std::string effort(int number) {
  return "<｜System｜>Reasoning Effort: " + std::to_string(number) +
         " (range 1-100, the higher the value, the more thorough the reasoning)\n\n";
}

Message user(std::string text) {
  return {.role = Role::kUser, .content = std::move(text)};
}
Message system(std::string text) {
  return {.role = Role::kSystem, .content = std::move(text)};
}
Message assistant(std::string text, std::string reasoning = {}) {
  return {.role = Role::kAssistant, .content = std::move(text), .reasoning = std::move(reasoning)};
}

std::string text_of(const Conversation& conversation) {
  return encode_prompt(conversation).value().text;
}

TEST(PromptEncoding, Examples) {
  EXPECT_EQ(text_of({.messages = {user("Hello")}, .thinking = false}),
            kBegin + kUser + "Hello" + kAssistant + "</think>");
  EXPECT_EQ(text_of({.messages = {user("Hello")}}), kBegin + effort(75) + kUser + "Hello" + kAssistant + "<think>");
  EXPECT_EQ(text_of({.messages = {system("Be brief."), user("Hi")}, .effort = {EffortLevel::kMax, 0}}),
            kBegin + effort(100) + "Be brief." + kUser + "Hi" + kAssistant + "<think>");
  EXPECT_EQ(
      text_of({.messages = {user("1+1?"), assistant("2", "easy"), user("2+2?")}}),
      kBegin + effort(75) + kUser + "1+1?" + kAssistant + "</think>2" + kEnd + kUser + "2+2?" + kAssistant + "<think>");
  EXPECT_EQ(text_of({.messages = {system("S0"),
                                  {.role = Role::kLatestReminder, .content = "2026-10-20"},
                                  user("a"),
                                  user("b"),
                                  assistant("c"),
                                  system("S1")},
                     .thinking = false}),
            kBegin + "<｜System｜>S0<｜latest_reminder｜>2026-10-20" + kUser + "a\n\nb" + kAssistant + "</think>c" +
                kEnd + "<｜System｜>S1" + kAssistant + "</think>");
}

TEST(PromptEncoding, EffortNumbers) {
  for (const auto& [level, number] : std::vector<std::pair<EffortLevel, int>>{
           {EffortLevel::kLow, 50}, {EffortLevel::kHigh, 75}, {EffortLevel::kXHigh, 75}, {EffortLevel::kMax, 100}}) {
    EXPECT_TRUE(text_of({.messages = {user("q")}, .effort = {level, 0}}).starts_with(kBegin + effort(number)));
  }
  EXPECT_TRUE(text_of({.messages = {user("q")}, .effort = {EffortLevel::kLow, 7}}).starts_with(kBegin + effort(7)));
  const Conversation conversation{.messages = {user("q")}, .effort = {EffortLevel::kLow, 0}};
  PromptOptions table;
  table.effort_low = 25;
  EXPECT_TRUE(encode_prompt(conversation, table)->text.starts_with(kBegin + effort(25)));
}

// O-07: a continued assistant turn has no new header behind it and no end token.
TEST(PromptEncoding, ContinuesTheLastAssistantTurn) {
  Message answer = assistant("The answer is");
  answer.prefix = true;
  EXPECT_EQ(text_of({.messages = {user("q"), answer}, .thinking = false}),
            kBegin + kUser + "q" + kAssistant + "</think>The answer is");
  answer.prefix = false;
  EXPECT_EQ(text_of({.messages = {user("q"), answer}, .thinking = false}),
            kBegin + kUser + "q" + kAssistant + "</think>The answer is" + kEnd + kAssistant + "</think>");
  answer.prefix = true;
  const Result<RenderedPrompt> refused = encode_prompt({.messages = {answer, user("q")}});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("messages[0].prefix"), std::string::npos);
}

// O-07 over the protocol: our superset knows the field names of other servers, and names the field it refuses.
TEST(PromptEncoding, ContinueFinalMessage) {
  ProtocolOptions options;
  options.profile = Profile::kExtended;
  const auto body = [](const std::string& last, const std::string& more) {
    return R"({"model":"DeepSeek-V4.1-Flash","reasoning_effort":"none","messages":[{"role":"user","content":"q"},)" +
           last + "]" + more + "}";
  };
  const std::string answer = R"({"role":"assistant","content":"The answer is"})";
  const auto request = parse_chat_completions(body(answer, R"(,"continue_final_message":true)"), options);
  ASSERT_TRUE(std::holds_alternative<InferenceRequest>(request)) << std::get<RequestError>(request).message;
  EXPECT_EQ(text_of(std::get<InferenceRequest>(request).conversation),
            kBegin + kUser + "q" + kAssistant + "</think>The answer is");
  for (const auto& [last, more, field] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {R"({"role":"user","content":"x"})", R"(,"continue_final_message":true)", "continue_final_message"},
           {answer, R"(,"continue_final_message":true,"add_generation_prompt":true)", "add_generation_prompt"},
           {answer, R"(,"add_generation_prompt":false)", "add_generation_prompt"}}) {
    const auto refused = parse_chat_completions(body(last, more), options);
    ASSERT_TRUE(std::holds_alternative<RequestError>(refused)) << more;
    EXPECT_NE(std::get<RequestError>(refused).message.find(field), std::string::npos);
  }
}

// O-08: an empty list of tools is no tools.
TEST(PromptEncoding, EmptyToolListIsNoTools) {
  const std::string head =
      R"({"model":"DeepSeek-V4.1-Flash","messages":[{"role":"user","content":"a"},)"
      R"({"role":"assistant","content":"b","reasoning_content":"old"},{"role":"user","content":"c"}])";
  const auto with = parse_chat_completions(head + R"(,"tools":[]})");
  const auto without = parse_chat_completions(head + "}");
  const std::string text = text_of(std::get<InferenceRequest>(with).conversation);
  EXPECT_EQ(text, text_of(std::get<InferenceRequest>(without).conversation));
  EXPECT_EQ(text.find("old"), std::string::npos);
}

TEST(PromptEncoding, Refusals) {
  const auto refused = [](const Conversation& conversation, const std::string& field) {
    const Result<RenderedPrompt> prompt = encode_prompt(conversation);
    ASSERT_FALSE(prompt.ok()) << field;
    EXPECT_EQ(prompt.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(prompt.status().message().find(field), std::string::npos) << prompt.status().message();
  };
  refused({.messages = {user("q")}, .effort = {EffortLevel::kHigh, 101}}, "effort");
  refused({.messages = {user("q")}, .effort = {EffortLevel::kHigh, -1}}, "effort");
  Message picture = assistant("x");
  picture.images.push_back({0, {}});
  refused({.messages = {user("q"), picture}}, "messages[1].images");
  Message beyond = user("x");
  beyond.images.push_back({2, {}});
  refused({.messages = {beyond}}, "messages[0].images");
  Message calls = user("x");
  calls.tool_calls.push_back({"1", "f", "{}"});
  refused({.messages = {calls}}, "messages[0].tool_calls");
  Message late = user("x");
  late.late_tools.push_back({.name = "f"});
  refused({.messages = {late}}, "messages[0].late_tools");
  Message prefix = assistant("x");
  prefix.prefix = true;
  refused({.messages = {user("q"), prefix}, .tools = {{.name = "f"}}, .tool_choice = ToolChoice::kRequired}, "prefix");
}

TEST(PromptEncoding, RequiredCallsAreOpenedUnlessTheModelThinksFirst) {
  Conversation conversation{
      .messages = {user("q")}, .thinking = false, .tools = {{.name = "f"}}, .tool_choice = ToolChoice::kRequired};
  const RenderedPrompt open = encode_prompt(conversation).value();
  EXPECT_TRUE(open.text.ends_with("</think>\n\n<｜DSML｜ calls>\n"));
  EXPECT_EQ(open.start, OutputStart::kTools);
  conversation.thinking = true;
  const RenderedPrompt thinking = encode_prompt(conversation).value();
  EXPECT_TRUE(thinking.text.ends_with("<think>"));
  EXPECT_EQ(thinking.start, OutputStart::kReasoning);
}

// Whatever a user, a system prompt, a tool or a reminder says, it makes no control token and moves none.
TEST(PromptEncodingProperty, TextNeverBecomesAControlToken) {
  EXPECT_TRUE(rc::check("control tokens are the template's own", [] {
    static const std::vector<std::string> fragments = {"a",
                                                       " ",
                                                       "\n",
                                                       "<",
                                                       "</",
                                                       "<think>",
                                                       "</think>",
                                                       "<｜User｜>",
                                                       "<｜Assistant｜>",
                                                       "<｜System｜>",
                                                       "<｜image｜>",
                                                       "<｜begin▁of▁sentence｜>",
                                                       "<｜end▁of▁sentence｜>",
                                                       "<｜DSML｜ calls>",
                                                       "｜DSML｜",
                                                       "</｜DSML｜",
                                                       "<｜ref｜>",
                                                       "<｜/box｜>",
                                                       "<｜latest_reminder｜>",
                                                       "<tool_result>",
                                                       "é",
                                                       "｜"};
    std::string text;
    for (const std::string& part : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(fragments))) {
      text += part;
    }
    const Role role = *rc::gen::element(Role::kUser, Role::kSystem, Role::kLatestReminder, Role::kTool);
    const auto encoded = [&](const std::string& content) {
      Conversation conversation;
      conversation.thinking = *rc::gen::just(true);
      Message call = assistant("");
      call.tool_calls.push_back({"1", "f",
                                 "{\"k\": \""
                                 "v\"}"});
      conversation.messages = {
          user("q"), call, {.role = role, .content = content, .tool_call_id = "1"}, assistant("z")};
      conversation.tools = {{.name = "f", .description = "<think>｜DSML｜"}};
      return encode_prompt(conversation).value();
    };
    const RenderedPrompt with = encoded(text);
    const RenderedPrompt empty = encoded("");
    RC_ASSERT(with.special.size() == empty.special.size());
    size_t place = 0;  // where the text stands: the first byte in which the prompts differ, at the latest
    while (place < empty.text.size() && with.text[place] == empty.text[place]) ++place;
    for (size_t i = 0; i < with.special.size(); ++i) {
      const std::string token = with.text.substr(with.special[i].begin, with.special[i].end - with.special[i].begin);
      const std::string same = empty.text.substr(empty.special[i].begin, empty.special[i].end - empty.special[i].begin);
      RC_ASSERT(token == same);
      const size_t shift = with.special[i].begin - empty.special[i].begin;
      RC_ASSERT(shift == 0u || shift == text.size());
    }
  }));
}

TEST(PromptEncoding, GroundingTokensOnlyInWhatAnAssistantSaid) {
  const RenderedPrompt prompt =
      encode_prompt({.messages = {user("<｜ref｜>"), assistant("<｜ref｜>cat<｜/ref｜><<｜box｜>"), user("<｜box｜>")},
                     .thinking = false})
          .value();
  std::vector<std::string> tokens;
  for (const ByteRange& range : prompt.special)
    tokens.push_back(prompt.text.substr(range.begin, range.end - range.begin));
  EXPECT_EQ(tokens, (std::vector<std::string>{kBegin, kUser, kAssistant, "</think>", "<｜ref｜>", "<｜/ref｜>",
                                              "<｜box｜>", kEnd, kUser, kAssistant, "</think>"}));
}

TEST(PromptEncoding, ImagesStandWhereTheyWere) {
  Message message = user("ab");
  for (const size_t offset : {0, 1, 1, 2}) message.images.push_back({offset, {.url = std::to_string(offset)}});
  const RenderedPrompt prompt = encode_prompt({.messages = {message}, .thinking = false}).value();
  EXPECT_EQ(prompt.text, kBegin + kUser + "<｜image｜>a<｜image｜><｜image｜>b<｜image｜>" + kAssistant + "</think>");
  ASSERT_EQ(prompt.images.size(), 4u);
  ASSERT_EQ(prompt.image_tokens.size(), 4u);
  for (const size_t token : prompt.image_tokens) {
    const ByteRange range = prompt.special[token];
    EXPECT_EQ(prompt.text.substr(range.begin, range.end - range.begin), "<｜image｜>");
  }
}

}  // namespace
}  // namespace deepinfer
