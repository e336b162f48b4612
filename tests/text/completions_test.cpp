// Completions requests: what is read, what is refused, and the object that answers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "text/json_text.h"
#include "text/protocol/completions_answer.h"
#include "text/protocol/completions_request.h"

namespace deepinfer {
namespace {

RequestOr<CompletionsRequest> parse(const std::string& fields) {
  return parse_completions(R"({"model":"DeepSeek-V4.1-Flash",)" + fields + "}");
}

TEST(CompletionsRequest, ReadsItsFields) {
  const auto request = std::get<CompletionsRequest>(
      parse(R"("prompt":["once"],"max_tokens":7,"temperature":0.5,"top_p":0.25,"presence_penalty":-1,)"
            R"("frequency_penalty":2,"seed":18446744073709551615,"stop":["a","b"],"logprobs":0,)"
            R"("logit_bias":{"5":-100,"6":1.5},"allow_special":true,"n":1,"echo":false,"suffix":null,"unknown":1)"));
  EXPECT_EQ(std::get<std::string>(request.prompts.at(0)), "once");
  EXPECT_EQ(request.max_tokens, 7u);
  EXPECT_EQ(request.temperature, 0.5f);
  EXPECT_EQ(request.top_p, 0.25f);
  EXPECT_EQ(request.generation.presence_penalty, -1);
  EXPECT_EQ(request.generation.frequency_penalty, 2);
  EXPECT_EQ(request.seed, UINT64_MAX);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.logprobs, 0);
  EXPECT_EQ(request.generation.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, -100.0f}, {6, 1.5f}}));
  EXPECT_TRUE(request.allow_special);
  EXPECT_EQ(request.ignored, std::vector<std::string>{"unknown"});
  const auto plain = std::get<CompletionsRequest>(parse(R"("prompt":[[1,2,3]])"));
  EXPECT_EQ(std::get<std::vector<int32_t>>(plain.prompts.at(0)), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(plain.max_tokens, 16u);
  EXPECT_FALSE(plain.logprobs.has_value());
}

TEST(CompletionsRequest, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("max_tokens":1)", "prompt"},
      {R"("prompt":7)", "prompt"},
      {R"("prompt":[])", "prompt"},
      {R"("prompt":["a",1])", "prompt"},
      {R"("prompt":[1,"a"])", "prompt"},
      {R"("prompt":[[1],[]])", "prompt"},
      {R"("prompt":[["a"]])", "prompt"},
      {R"("prompt":["a",null])", "prompt"},
      {R"("prompt":["a","b"],"prompt_logprobs":1)", "prompt_logprobs"},
      {R"("prompt":[1,-2])", "prompt"},
      {R"("prompt":[4294967296])", "prompt"},
      {R"("prompt":"a","n":0)", "n value"},
      {R"("prompt":"a","n":17)", "n value"},
      {R"("prompt":"a","n":1000000)", "n value"},
      {R"("prompt":"a","best_of":3)", "best_of"},
      {R"("prompt":"a","stream_options":{})", "stream_options"},
      {R"("prompt":[1],"suffix":"b")", "suffix"},
      {R"("prompt":"a","suffix":"b","echo":true)", "suffix"},
      {R"("prompt":"a","suffix":7)", "suffix"},
      {R"("prompt":"a","temperature":2.5)", "temperature"},
      {R"("prompt":"a","top_p":0)", "top_p"},
      {R"("prompt":"a","presence_penalty":3)", "presence_penalty"},
      {R"("prompt":"a","max_tokens":0)", "max_tokens"},
      {R"("prompt":"a","logprobs":21)", "logprobs"},
      {R"("prompt":"a","stop":[""])", "stop"},
      {R"("prompt":"a","logit_bias":{"x":1})", "logit_bias"},
      {R"("prompt":"a","logit_bias":{"1":101})", "logit_bias"},
      {R"("prompt":"a","logit_bias":{"1":"2"})", "logit_bias"},
      {R"("prompt":"a","top_k":-2)", "top_k"},
      {R"("prompt":"a","top_k":1.0)", "top_k"},
      {R"("prompt":"a","min_p":1.5)", "min_p"},
      {R"("prompt":"a","repetition_penalty":0)", "repetition_penalty"},
      {R"("prompt":"a","stop_token_ids":[-1])", "stop_token_ids"},
      {R"("prompt":"a","stop_token_ids":[4294967296])", "stop_token_ids"},
      {R"("prompt":"a","min_tokens":-1)", "min_tokens"},
      {R"("prompt":"a","prompt_logprobs":21)", "prompt_logprobs"},
      {R"("prompt":"a","prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
      {R"("prompt":"a","priority":1001)", "priority"},
      {R"("prompt":"a","priority":18446744073709551615)", "priority"},
      {R"("prompt":"a","timeout":0)", "timeout"},
      {R"("prompt":"a","timeout":"1")", "timeout"},
      {R"("prompt":"a","timeout":1e300)", "timeout"},
      {R"("prompt":"a","cache_salt":7)", "cache_salt"},
  };
  for (const auto& [fields, name] : cases) {
    const auto answer = parse(fields);
    const auto* error = std::get_if<RequestError>(&answer);
    ASSERT_NE(error, nullptr) << fields;
    EXPECT_EQ(error->http_status, 400);
    EXPECT_NE(error->message.find(name), std::string::npos) << fields << ": " << error->message;
  }
  EXPECT_TRUE(std::holds_alternative<RequestError>(parse_completions(R"({"model":"gpt","prompt":"a"})")));
}

TEST(CompletionsRequest, ListsOfPrompts) {
  const auto texts = std::get<CompletionsRequest>(parse(R"("prompt":["a","b",[1,2]],"n":2,"suffix":"")"));
  ASSERT_EQ(texts.prompts.size(), 3u);
  EXPECT_EQ(std::get<std::string>(texts.prompts[1]), "b");
  EXPECT_EQ(std::get<std::vector<int32_t>>(texts.prompts[2]), (std::vector<int32_t>{1, 2}));
  std::string many = "\"prompt\":[\"a\"";
  for (size_t i = 1; i < kMostAnswers; ++i) many += ",\"a\"";
  EXPECT_TRUE(std::holds_alternative<CompletionsRequest>(parse(many + "]")));
  EXPECT_TRUE(std::holds_alternative<RequestError>(parse(many + "],\"n\":2")));
  EXPECT_TRUE(std::holds_alternative<RequestError>(parse(many + ",\"a\"]")));
}

TEST(CompletionsAnswer, IsOneObject) {
  CompletionsAnswer answer;
  answer.identity = {"ID", "MODEL", "fp", 5, 0};
  answer.prompt = {10, 4};
  answer.output_tokens = 2;
  answer.text = "a\n\xFF";
  answer.end = AnswerEnd::kLength;
  const CompletionsAnswer* const all[] = {&answer};
  Json object = parse_json(completions_object(all)).value();
  EXPECT_EQ(object["object"], "text_completion");
  EXPECT_EQ(object["choices"][0]["text"], "a\n\xEF\xBF\xBD");
  EXPECT_EQ(object["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(object["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(object["usage"]["total_tokens"], 12);
  EXPECT_EQ(object["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  answer.with_logprobs = true;
  answer.logprobs = {{"a", -0.5f, {{"a", -0.5f}, {"b", -HUGE_VALF}}}, {"\n\xFF", -1.0f, {}}};
  object = parse_json(completions_object(all)).value();
  const Json& logprobs = object["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[-0.5,-1.0]"));
  EXPECT_EQ(logprobs["top_logprobs"][0]["b"], -9999.0);
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,1]"));
}

}  // namespace
}  // namespace deepinfer
