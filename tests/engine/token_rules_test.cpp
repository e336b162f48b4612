// What a request may say about its tokens beyond sampling: forced, forbidden and early ones, grammars, reports on the
// prompt.  On the best CPU path of this machine, with and without drafts, alone and in company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

constexpr int32_t kEnd = 1;

OpsBackend backend() {
  const CpuIsa best = machine_paths().back();
  return {"cpu", [best] { return make_cpu_path(best, 2); }};
}

EngineOptions small_engine() {
  EngineOptions options;
  options.max_context = 2048;
  options.max_sequences = 6;
  options.step_rows = 64;
  return options;
}

EngineRequest story_request(int64_t most, float temperature, int32_t drafts) {
  EngineRequest request;
  request.prompt = greedy_goldens().front().ids;
  request.params = greedy_params(most, drafts);
  request.params.temperature = temperature;
  request.params.seed = 7;
  return request;
}

class TokenRulesTest : public testing::Test {
 protected:
  // All at once; their tokens in the same order.
  std::vector<std::vector<GeneratedToken>> answers(const std::vector<EngineRequest>& requests) {
    std::vector<RequestId> ids;
    for (const EngineRequest& request : requests) {
      const auto id = run_.submit(request);
      DI_CHECK(id.ok(), id.status().message());
      ids.push_back(*id);
    }
    run_.drain();
    std::vector<std::vector<GeneratedToken>> result;
    for (const RequestId id : ids) {
      EXPECT_EQ(run_.seen(id).ends.size(), 1U);
      EXPECT_TRUE(run_.seen(id).ends.at(0).failure.ok()) << run_.seen(id).ends.at(0).failure.message();
      result.push_back(run_.seen(id).tokens);
    }
    last_ = ids;
    return result;
  }
  // The same with no drafts, with the model's, and one after the other: all must agree.
  std::vector<GeneratedToken> answer(EngineRequest request) {
    request.params.draft_tokens = 0;
    const auto alone = answers({request})[0];
    request.params.draft_tokens = -1;
    const auto together = answers({request, story_request(40, 0.8F, -1), request});
    expect_same_tokens(together[0], alone, "with drafts");
    expect_same_tokens(together[2], alone, "in company");
    return alone;
  }
  Status failure(const EngineRequest& request) {
    const auto id = run_.submit(request);
    if (!id.ok()) return id.status();
    run_.drain();
    return run_.seen(*id).ends.at(0).failure;
  }

  EngineRun run_{backend(), small_engine()};
  std::vector<RequestId> last_;
};

std::vector<int32_t> ids(const std::vector<GeneratedToken>& tokens) {
  std::vector<int32_t> list;
  for (const GeneratedToken& token : tokens) list.push_back(token.token);
  return list;
}

TEST_F(TokenRulesTest, ForcedTokensHaveTheLogprobsOfGeneratedOnes) {
  for (const float temperature : {0.0F, 0.8F}) {
    const EngineRequest free = story_request(30, temperature, 0);
    const auto generated = answers({free})[0];
    EngineRequest forced = free;
    forced.forced_tokens = ids(generated);
    expect_same_tokens(answer(forced), generated, "forced");
  }
}

TEST_F(TokenRulesTest, AnAnswerGoesOnFreelyBehindForcedTokens) {
  EngineRequest request = story_request(20, 0, 0);
  request.forced_tokens = {300, -1, 301};
  const auto tokens = answer(request);
  ASSERT_EQ(tokens.size(), 20U);
  EXPECT_EQ(tokens[0].token, 300);
  EXPECT_EQ(tokens[2].token, 301);
  EngineRequest longer = request;
  longer.prompt.push_back(300);
  longer.forced_tokens = {-1};
  EXPECT_EQ(answers({longer})[0][0].token, tokens[1].token);
}

TEST_F(TokenRulesTest, ReportsOnPromptTokensAreThoseOfForcedOnes) {
  std::vector<int32_t> prompt = ForwardGolden("recall").ids();
  prompt.resize(300);
  EngineRequest report = story_request(3, 0, 0);
  report.prompt = prompt;
  report.prompt_logprobs = 2;
  EngineRequest forced = report;
  forced.prompt_logprobs = -1;
  forced.prompt.resize(1);
  forced.forced_tokens.assign(prompt.begin() + 1, prompt.end());
  forced.params.max_tokens = 299;
  forced.params.stop_tokens.clear();
  forced.params.logprobs = 2;
  const auto want = answers({forced})[0];
  const auto answered = answers({report, story_request(20, 0, -1)});
  expect_same_tokens(run_.seen(last_[0]).prompt_logprobs, want, "prompt");
  // Whoever asks for nothing gets the same answer, and nothing else.
  report.prompt_logprobs = -1;
  expect_same_tokens(answers({report})[0], answered[0], "answer");
  EXPECT_TRUE(run_.seen(last_[0]).prompt_logprobs.empty());
}

TEST_F(TokenRulesTest, NoStopTokenComesBeforeMinTokens) {
  const auto unbounded = answers({story_request(60, 0, 0)})[0];
  EngineRequest request = story_request(60, 0, 0);
  request.params.stop_tokens = {unbounded[5].token};
  const auto early = answer(request);
  ASSERT_LE(early.size(), 6U);
  request.min_tokens = 20;
  const auto late = answer(request);
  ASSERT_GE(late.size(), 20U);
  for (size_t i = 0; i < 20; ++i) EXPECT_NE(late[i].token, unbounded[5].token);
}

TEST_F(TokenRulesTest, BadWordsNeverOccur) {
  const auto unbounded = ids(answers({story_request(30, 0, 0)})[0]);
  EngineRequest request = story_request(30, 0, 0);
  request.bad_words = {{unbounded[3]}, {unbounded[8], unbounded[9]}};
  const auto tokens = ids(answer(request));
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + 3, unbounded.begin()));
  for (const auto& word : request.bad_words)
    EXPECT_EQ(std::search(tokens.begin(), tokens.end(), word.begin(), word.end()), tokens.end());
}

TEST_F(TokenRulesTest, OnlyAllowedTokensAreDrawn) {
  EngineRequest request = story_request(20, 0.9F, 0);
  request.params.stop_tokens.clear();
  request.allowed_tokens = {40, 41, 77, 300};
  for (const GeneratedToken& token : answer(request))
    EXPECT_NE(std::find(request.allowed_tokens.begin(), request.allowed_tokens.end(), token.token),
              request.allowed_tokens.end());
}

TEST_F(TokenRulesTest, ChoicesDifferAndTheFirstIsTheOnlyOne) {
  EngineRequest request = story_request(20, 3, 0);
  const auto only = answer(request);
  request.choice = 1;
  const auto other = answer(request);
  EXPECT_NE(ids(other), ids(only));
  request.choice = 0;
  expect_same_tokens(answer(request), only, "choice 0");
}

TEST_F(TokenRulesTest, AGrammarHoldsWithAndWithoutDrafts) {
  const auto tokenizer = Tokenizer::load(std::filesystem::path(DEEPINFER_TEST_MODEL) / "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  EngineRequest request = story_request(200, 0.9F, 0);
  request.grammar.emplace();
  request.grammar->kind = GrammarSpec::Kind::kRegex;
  request.grammar->text = "(yes|no), [0-9]{3}-[a-f]{2}";
  const auto tokens = ids(answer(request));
  ASSERT_EQ(tokens.back(), kEnd);
  const std::string text = (*tokenizer)->decode(std::span(tokens).first(tokens.size() - 1));
  EXPECT_TRUE(text.starts_with("yes, ") || text.starts_with("no, ")) << text;
  EXPECT_EQ(text.size(), text.find(',') + 2 + 6) << text;
}

// The token that ends the reasoning stands at every place of a round of drafts; the grammar holds what comes behind it.
TEST_F(TokenRulesTest, ReasoningMayEndAtAnyPlaceAmongDrafts) {
  const auto tokenizer = Tokenizer::load(std::filesystem::path(DEEPINFER_TEST_MODEL) / "tokenizer.json").value();
  const int32_t end = tokenizer->added_id("</think>").value();
  const std::vector<int32_t> free = ids(answer(story_request(10, 0, 0)));  // what drafts come near
  for (size_t reasoning = 0; reasoning <= 7; ++reasoning) {
    EngineRequest request = story_request(60, 0, 0);
    request.forced_tokens.assign(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(reasoning));
    request.forced_tokens.push_back(end);
    request.grammar.emplace();
    request.grammar->kind = GrammarSpec::Kind::kToolCalls;
    request.grammar->tools = {{"any", "", false}};
    request.grammar->reasoning_end = end;
    request.grammar->content = GrammarSpec::Content::kRegex;
    request.grammar->text = "(yes|no), [0-9]{3}";
    const std::vector<int32_t> tokens = ids(answer(request));
    ASSERT_GT(tokens.size(), reasoning + 1);
    const std::string text = tokenizer->decode(std::span(tokens).subspan(reasoning + 1));
    EXPECT_TRUE(text.starts_with("yes, ") || text.starts_with("no, ") || text.find("DSML") != std::string::npos)
        << reasoning << ": " << text;
  }
}

// A model that would write line feeds for ever: between the tokens of JSON there is little room for white space, and
// none behind it.
TEST_F(TokenRulesTest, JsonEndsWhateverWhiteSpaceAModelPrefers) {
  const auto tokenizer = Tokenizer::load(std::filesystem::path(DEEPINFER_TEST_MODEL) / "tokenizer.json").value();
  for (const float temperature : {0.0F, 1.0F}) {
    EngineRequest request = story_request(300, temperature, 0);
    request.grammar.emplace();
    request.grammar->text = R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"array","items":
        {"enum":["x"]},"maxItems":3}},"required":["a","b"]})";
    for (int32_t token = 0; token < run_.engine().vocabulary(); ++token) {
      if (tokenizer->is_added(token)) continue;
      const std::string_view bytes = tokenizer->bytes(token);
      if (!bytes.empty() && bytes.find_first_not_of(" \t\r\n") == std::string_view::npos)
        request.params.logit_bias.push_back({token, 60});
    }
    ASSERT_FALSE(request.params.logit_bias.empty());
    const std::vector<int32_t> tokens = ids(answer(request));
    ASSERT_EQ(tokens.back(), kEnd) << "it ended, and not for its length";
    const std::string text = tokenizer->decode(std::span(tokens).first(tokens.size() - 1));
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    EXPECT_TRUE(text.starts_with('{') && text.ends_with('}')) << text;
  }
}

TEST_F(TokenRulesTest, WhatCannotBeIsAnErrorOfThatRequestAlone) {
  EngineRequest none = story_request(10, 0, 0);
  none.allowed_tokens = {50};
  none.bad_words = {{50}};
  EXPECT_EQ(failure(none).code(), StatusCode::kInvalidArgument);
  EXPECT_NE(failure(none).message().find("allowed_tokens"), std::string::npos) << failure(none).message();

  EngineRequest broken = story_request(10, 0, 0);
  broken.grammar.emplace();
  broken.grammar->kind = GrammarSpec::Kind::kRegex;
  broken.grammar->text = "(unclosed";
  EXPECT_NE(failure(broken).message().find("grammar"), std::string::npos) << failure(broken).message();

  EngineRequest breaks = story_request(10, 0, 0);
  breaks.grammar.emplace();
  breaks.grammar->kind = GrammarSpec::Kind::kRegex;
  breaks.grammar->text = "[a-z]+";
  breaks.forced_tokens = {0};
  EXPECT_NE(failure(breaks).message().find("forced_tokens"), std::string::npos) << failure(breaks).message();

  for (auto [field, change] : std::vector<std::pair<std::string, void (*)(EngineRequest&)>>{
           {"allowed_tokens", [](EngineRequest& r) { r.allowed_tokens = {-1}; }},
           {"bad_words", [](EngineRequest& r) { r.bad_words = {{}}; }},
           {"bad_words", [](EngineRequest& r) { r.bad_words = {{1 << 30}}; }},
           {"forced_tokens", [](EngineRequest& r) { r.forced_tokens = {-2}; }},
           {"min_tokens", [](EngineRequest& r) { r.min_tokens = -1; }},
           {"min_tokens", [](EngineRequest& r) { r.min_tokens = 11; }},
           {"prompt_logprobs", [](EngineRequest& r) { r.prompt_logprobs = 1 << 30; }},
           {"choice", [](EngineRequest& r) { r.choice = 1 << 24; }},
           {"timeout", [](EngineRequest& r) { r.timeout = std::chrono::milliseconds(-1); }},
       }) {
    EngineRequest wrong = story_request(10, 0, 0);
    change(wrong);
    const auto id = run_.submit(wrong);
    ASSERT_FALSE(id.ok()) << field;
    EXPECT_NE(id.status().message().find(field), std::string::npos) << id.status().message();
  }
  EXPECT_EQ(answers({story_request(10, 0, -1)})[0].size(), 10U);
}

}  // namespace
}  // namespace deepinfer
