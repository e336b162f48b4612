// Bounded prefix_replay in the engine: an approximation that says so, uses exact records and leaves none.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

OpsBackend backend() {
  return {"cpu", [] { return make_cpu_path(machine_paths().back(), 2); }};
}

EngineRun engine() {
  EngineOptions options;
  options.max_context = 2048;
  options.max_sequences = 4;
  options.early_snapshot_interval = 128;
  options.draft_schedule = DraftSchedule::kAll;  // measures nothing at the start
  return EngineRun(backend(), options);
}

EngineRequest request(int64_t tokens, PrefixReplay replay) {
  const std::vector<int32_t> text = ForwardGolden("recall").ids();
  EngineRequest request;
  request.prompt.assign(text.begin(), text.begin() + tokens);
  request.params = greedy_params(12, -1);
  request.prefix_replay = replay;
  return request;
}

const SeenRequest& answer(EngineRun& run, const EngineRequest& request) {
  const RequestId id = *run.submit(request);
  run.drain();
  return run.seen(id);
}

TEST(BoundedPrefix, EqualsTheGeneratorsAndIsNearTheExactAnswer) {
  EngineRun run = engine();
  GeneratorOptions options;
  options.prefill = PrefillMode::kBoundedReplay;
  const auto solo = open_generator(backend(), options);
  for (const int64_t tokens : {140, 141, 1001}) {
    const EngineRequest bounded = request(tokens, PrefixReplay::kBounded);
    const SeenRequest& got = answer(run, bounded);
    EXPECT_EQ(got.ends.at(0).marks.bounded_prefix, tokens > 140);
    expect_same_tokens(got.tokens, generate(*solo, bounded.prompt, bounded.params).tokens, std::to_string(tokens));
    const SeenRequest& exact = answer(run, request(tokens, PrefixReplay::kExact));
    EXPECT_FALSE(exact.ends.at(0).marks.bounded_prefix);
    if (tokens <= 140) {
      expect_same_tokens(got.tokens, exact.tokens, "the whole prompt is seen");
    } else {
      // v41-model.md 3.3: the distribution of the next token moves by 0.0014 at most, its top stays.
      EXPECT_EQ(got.tokens[0].token, exact.tokens[0].token);
      EXPECT_NEAR(std::exp(got.tokens[0].logprob), std::exp(exact.tokens[0].logprob), 0.003);
    }
  }
}

// The demonstration model's later layers reach back 508 tokens: who keeps more is exact.
TEST(BoundedPrefix, IsExactWhereAllThatCanReachTheAnswerIsKept) {
  EngineRun run = engine();
  EngineRequest all = request(700, PrefixReplay::kBounded);
  all.replay_tokens = 509;
  all.params.draft_tokens = 0;
  EngineRequest exact = request(700, PrefixReplay::kExact);
  exact.params.draft_tokens = 0;
  expect_same_tokens(answer(run, all).tokens, answer(run, exact).tokens, "509 tokens");
}

TEST(BoundedPrefix, LeavesNothingForOthersAndStartsFromExactRecords) {
  EngineRun run = engine();
  const EngineRequest bounded = request(900, PrefixReplay::kBounded), exact = request(900, PrefixReplay::kExact);
  const std::vector<GeneratedToken> first = answer(run, bounded).tokens;
  EXPECT_EQ(answer(run, bounded).ends.at(0).cached_tokens, 0);
  EXPECT_EQ(answer(run, exact).ends.at(0).cached_tokens, 0);
  const SeenRequest& again = answer(run, bounded);
  EXPECT_GT(again.ends.at(0).cached_tokens, 0);
  EXPECT_LE(again.ends.at(0).cached_tokens, 760);
  expect_same_tokens(again.tokens, first, "from exact records");
}

TEST(BoundedPrefix, SaysWhatItDoesNotTake) {
  EngineRun run = engine();
  EngineRequest few = request(300, PrefixReplay::kBounded);
  few.replay_tokens = 133;
  EXPECT_EQ(run.submit(few).status().message(), "replay_tokens is 133; allowed: 134 or more (window and drafts)");
  EngineRequest logprobs = request(300, PrefixReplay::kBounded);
  logprobs.prompt_logprobs = 1;
  EXPECT_EQ(run.submit(logprobs).status().message(),
            "prompt_logprobs is 1; allowed with bounded prefix_replay: -1, the layers do not see the whole prompt");
}

// The draft block has five tokens: a request for more is refused, not cut.
TEST(DraftTokens, UpToTheModelsBlock) {
  EngineRun run = engine();
  const std::vector<GeneratedToken> want = answer(run, request(100, PrefixReplay::kExact)).tokens;
  for (int32_t drafts = 0; drafts <= 5; ++drafts) {
    EngineRequest some = request(100, PrefixReplay::kExact);
    some.params.draft_tokens = drafts;
    const SeenRequest& seen = answer(run, some);
    expect_same_tokens(seen.tokens, want, std::to_string(drafts) + " drafts");
    if (drafts == 0) {
      EXPECT_EQ(seen.ends.at(0).drafted, 0);
    }
  }
  for (const int32_t drafts : {6, 7, 8}) {
    EngineRequest many = request(100, PrefixReplay::kExact);
    many.params.draft_tokens = drafts;
    EXPECT_EQ(run.submit(many).status().message(),
              "draft_tokens is " + std::to_string(drafts) + "; allowed: -1 to 5, the model's draft block");
  }
}

}  // namespace
}  // namespace deepinfer
