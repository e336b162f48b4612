// Drafts of the demonstration model in the engine: the recorded continuations, and how many tokens a round delivers on
// chat prompts that no recording contains.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"
#include "text/prompt_encoding.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

EngineRun all_drafts() {
  EngineOptions options;
  options.max_context = 2048;
  options.max_sequences = 16;
  options.draft_schedule = DraftSchedule::kAll;
  const CpuIsa best = machine_paths().back();
  return EngineRun({"cpu", [best] { return make_cpu_path(best, 2); }}, options);
}

TEST(Acceptance, RecordedContinuationsAreReproducedTogether) {
  EngineRun run = all_drafts();
  std::vector<RequestId> ids;
  const std::vector<GreedyGolden> goldens = dspark_goldens();
  ASSERT_FALSE(goldens.empty());
  for (const GreedyGolden& golden : goldens) {
    EngineRequest request;
    request.prompt = golden.ids;
    request.params = greedy_params(static_cast<int64_t>(golden.fresh.size()), -1);
    ids.push_back(*run.submit(request));
  }
  run.drain();
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<int32_t> tokens;
    for (const GeneratedToken& token : run.seen(ids[i]).tokens) tokens.push_back(token.token);
    EXPECT_EQ(tokens, goldens[i].fresh) << goldens[i].name;
  }
}

TEST(Acceptance, ARoundDeliversThreeAndAHalfTokensOnChatPrompts) {
  const auto tokenizer = Tokenizer::load(std::filesystem::path(DEEPINFER_TEST_MODEL) / "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  EngineRun run = all_drafts();
  std::vector<RequestId> ids;
  std::ifstream lines(DEEPINFER_TEST_DATA "/model/chat_prompts.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto prompt = nlohmann::json::parse(line);
    Conversation conversation;
    conversation.thinking = prompt.at("thinking").get<bool>();
    Message message;
    message.role = Role::kUser;
    message.content = prompt.at("text").get<std::string>();
    conversation.messages.push_back(std::move(message));
    const auto rendered = encode_prompt(conversation);
    ASSERT_TRUE(rendered.ok());
    EngineRequest request;
    ASSERT_TRUE((*tokenizer)->encode_segments(rendered->text, rendered->special, request.prompt).ok());
    request.params = greedy_params(200, -1);
    ids.push_back(*run.submit(request));
  }
  ASSERT_GE(ids.size(), 50U);
  run.drain();
  int64_t tokens = 0, rounds = 0;
  for (const RequestId id : ids) {
    const RequestSummary& summary = run.seen(id).ends.at(0);
    tokens += summary.answer_tokens - 1;  // the first comes from the prompt
    rounds += summary.rounds;
  }
  const double delivered = static_cast<double>(tokens) / static_cast<double>(rounds);
  EXPECT_GE(delivered, 3.5) << tokens << " tokens in " << rounds << " rounds";
  RecordProperty("tokens_a_round", std::to_string(delivered));
}

}  // namespace
}  // namespace deepinfer
