// Completions on a scripted engine: lists of prompts, texts with a hole, log-probabilities of what is repeated.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

constexpr const char* kEnd = "<｜end▁of▁sentence｜>";

// Answer i is choice i % n of prompt i / n; each prompt counts once.
TEST(Completions, ListsOfPrompts) {
  ApiTestServer server([](const EngineRequest& request) {
    const std::string text = test_tokenizer().decode({&request.prompt.back(), 1}) + std::to_string(request.choice);
    return scripted_text(test_tokenizer(), text + "<｜end▁of▁sentence｜>");
  });
  const auto whole = server.send("/v1/completions", R"({"model":"tiny","prompt":["x","yy",[50,51]],"n":2,"seed":3})");
  const Json object = whole->json();
  ASSERT_EQ(object["choices"].size(), 6u) << whole->body();
  int64_t tokens = 0;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(object["choices"][i]["index"], i);
    EXPECT_EQ(object["choices"][i]["text"].get<std::string>().back(), static_cast<char>('0' + i % 2));
  }
  EXPECT_EQ(object["choices"][0]["text"], "x0");
  for (const EngineRequest& request : server.engine().seen()) {
    EXPECT_EQ(request.params.seed, 3u);
    if (request.choice == 0) tokens += static_cast<int64_t>(request.prompt.size());
  }
  EXPECT_EQ(object["usage"]["prompt_tokens"], tokens);
  const auto stream = server.send(
      "/v1/completions",
      R"({"model":"tiny","prompt":["x","yy"],"stream":true,"echo":true,"stream_options":{"include_usage":true}})");
  std::string texts[2];
  int ends = 0;
  const auto events = events_of(stream->body());
  for (const auto& [name, data] : events) {
    if (data == "[DONE]") continue;
    const Json chunk = Json::parse(data);
    for (const Json& choice : chunk["choices"]) {
      texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
      ends += !choice["finish_reason"].is_null();
    }
  }
  EXPECT_EQ(texts[0], "xx0");
  EXPECT_EQ(texts[1].substr(0, 2), "yy");
  EXPECT_EQ(ends, 2);
  EXPECT_EQ(events.back().second, "[DONE]");
  const auto wrong = server.send("/v1/completions", R"({"model":"tiny","prompt":["x",[1,2]],"max_tokens":8191})");
  EXPECT_EQ(wrong->status(), 400);
  EXPECT_NE(wrong->body().find("prompt["), std::string::npos) << wrong->body();
}

// A text with a hole, as the model was trained: begin PREFIX hole SUFFIX end.
TEST(Completions, Suffix) {
  ApiTestServer server("middle<｜end▁of▁sentence｜>");
  const auto answer = server.send("/v1/completions", R"({"model":"tiny","prompt":"def f(","suffix":"<think>):"})");
  EXPECT_EQ(answer->json()["choices"][0]["text"], "middle");
  const std::vector<int32_t> prompt = server.engine().seen()[0].prompt;
  const auto id = [](const char* spelling) { return test_tokenizer().added_id(spelling).value(); };
  EXPECT_EQ(prompt[0], id("<｜begin▁of▁sentence｜>"));
  EXPECT_EQ(prompt[1], id("<｜fim▁begin｜>"));
  EXPECT_EQ(prompt.back(), id("<｜fim▁end｜>"));
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), id("<｜fim▁hole｜>")), 1);
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), id("<think>")), 0);
  EXPECT_EQ(test_tokenizer().decode(prompt),
            "<｜begin▁of▁sentence｜><｜fim▁begin｜>def f(<｜fim▁hole｜><think>):<｜fim▁end｜>");
}

TEST(Completions, EchoWithLogprobs) {
  ApiTestServer server([](const EngineRequest& request) {
    ScriptedAnswer answer = scripted_text(test_tokenizer(), std::string("x") + kEnd);
    EXPECT_EQ(request.prompt_logprobs, 0);
    for (size_t i = 1; i < request.prompt.size(); ++i) {
      GeneratedToken token;
      token.token = request.prompt[i];
      token.logprob = -static_cast<float>(i);
      answer.prompt_logprobs.push_back(token);
    }
    return answer;
  });
  const auto of_text =
      server.send("/v1/completions", R"({"model":"tiny","prompt":"Once upon","echo":true,"logprobs":0})");
  ASSERT_EQ(of_text->status(), 200) << of_text->body();
  const Json logprobs = of_text->json()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["token_logprobs"][0], -1.0) << "the text begins behind the token that was put before it";
  EXPECT_EQ(of_text->json()["choices"][0]["text"], "Once uponx");
  const auto of_ids = server.send("/v1/completions", R"({"model":"tiny","prompt":[50,51],"echo":true,"logprobs":0})");
  EXPECT_TRUE(of_ids->json()["choices"][0]["logprobs"]["token_logprobs"][0].is_null());
  const auto several =
      server.send("/v1/completions", R"({"model":"tiny","prompt":["Once upon","a"],"n":2,"echo":true,"logprobs":0})");
  const Json choices = several->json()["choices"];
  ASSERT_EQ(choices.size(), 4u) << several->body();
  EXPECT_EQ(choices[0]["logprobs"], logprobs);
  EXPECT_EQ(choices[1]["logprobs"], logprobs);
  EXPECT_EQ(choices[2]["logprobs"], choices[3]["logprobs"]);
}

}  // namespace
}  // namespace deepinfer::serving
