// Drafts of the demonstration model in the engine: the recorded continuations, and how many tokens a round delivers on
// chat prompts that no recording contains.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/cpu_backends.h"
#include "bench/timed_ops.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"
#include "text/prompt_encoding.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

// Notes what drafts are drawn, by the seed of their request and by position.  Rows of drafts ask for no
// log-probability.
class DrawnDrafts final : public bench::TimedOps {
 public:
  explicit DrawnDrafts(std::unique_ptr<Ops> ops) : TimedOps(*ops), ops_(std::move(ops)) {}

  void sample(const Sample& op) override {
    TimedOps::sample(op);
    for (size_t i = 0; i < op.rows.size(); ++i) {
      const SamplingRow& row = op.rows[i];
      if (row.logprobs < 0) drafts[{row.seed, row.position}].push_back(op.result[i].token);
    }
  }

  // Several at one place: those of several rounds, in their order.
  std::map<std::pair<uint64_t, int64_t>, std::vector<int32_t>> drafts;

 private:
  std::unique_ptr<Ops> ops_;
};

EngineRun all_drafts(DrawnDrafts** drawn = nullptr) {
  EngineOptions options;
  options.max_context = 2048;
  options.max_sequences = 16;
  options.draft_schedule = DraftSchedule::kAll;
  const CpuIsa best = machine_paths().back();
  return EngineRun({"cpu",
                    [best, drawn]() -> std::unique_ptr<Ops> {
                      if (drawn == nullptr) return make_cpu_path(best, 2);
                      auto ops = std::make_unique<DrawnDrafts>(make_cpu_path(best, 2));
                      *drawn = ops.get();
                      return ops;
                    }},
                   options);
}

// All of them at once: every token of the continuations, and nine drafts of ten.  Taps carry rounding noise, so a draft
// may differ, and with it where the rounds after it begin (golden/model/README.md).
TEST(Acceptance, RecordedContinuationsAndDraftsAreReproducedTogether) {
  DrawnDrafts* drawn = nullptr;
  EngineRun run = all_drafts(&drawn);
  std::vector<RequestId> ids;
  const std::vector<GreedyGolden> goldens = dspark_goldens();
  ASSERT_FALSE(goldens.empty());
  constexpr int64_t kBlock = 5;
  for (size_t i = 0; i < goldens.size(); ++i) {
    EngineRequest request;
    request.prompt = goldens[i].ids;
    // Rounds were recorded whole, also where the 48 tokens end inside.
    request.params = greedy_params(std::ssize(goldens[i].fresh) + 2 * kBlock, -1);
    request.params.seed = 1000 + i;
    ids.push_back(*run.submit(request));
  }
  run.drain();
  int64_t same_start = 0, rounds = 0, agreed = 0, compared = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<int32_t> tokens;
    for (const GeneratedToken& token : run.seen(ids[i]).tokens) tokens.push_back(token.token);
    tokens.resize(std::min(tokens.size(), goldens[i].fresh.size()));
    EXPECT_EQ(tokens, goldens[i].fresh) << goldens[i].name;
    // A round's drafts are those at five consecutive positions behind a token that no earlier round of it drafted past.
    int64_t next_anchor = goldens[i].rounds.at(0).anchor;
    for (const DraftGolden& golden : goldens[i].rounds) {
      ++rounds;
      if (golden.anchor != next_anchor) break;
      ++same_start;
      int64_t right = 0;
      bool all = true;
      for (int64_t d = 0; d < kBlock; ++d) {
        auto& at = drawn->drafts[{1000 + i, golden.anchor + 2 + d}];
        ASSERT_FALSE(at.empty()) << goldens[i].name;
        const int32_t draft = at.front();
        at.erase(at.begin());
        ++compared;
        if (draft == golden.draft[static_cast<size_t>(d)]) ++agreed;
        const size_t place = static_cast<size_t>(golden.anchor + 2 + d) - goldens[i].ids.size();
        all = all && place < tokens.size() && tokens[place] == draft;
        if (all) ++right;
      }
      next_anchor = golden.anchor + right + 1;
    }
  }
  EXPECT_GE(agreed, compared * 9 / 10) << agreed << " of " << compared;
  EXPECT_GE(compared, 250);
  EXPECT_GE(same_start, rounds * 9 / 10) << same_start << " of " << rounds;
  RecordProperty("agreed_of_1000", std::to_string(1000 * agreed / compared));
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
