// The bound on a step's time while streams decode.
#include "scheduling/step_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "scheduling/scripted_engine.h"

namespace deepinfer::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(StepBudget, WithoutStreamsThereIsNoBound) {
  const StepBudget budget(milliseconds(50), 16);
  EXPECT_EQ(budget.prefill_rows(0), std::numeric_limits<int64_t>::max());
}

TEST(StepBudget, NothingKnownMeansTheLeastChunk) {
  StepBudget budget(milliseconds(50), 16);
  EXPECT_EQ(budget.prefill_rows(3), 16);
  budget.observe(3, 0, milliseconds(10));
  EXPECT_EQ(budget.prefill_rows(3), 16);
}

TEST(StepBudget, RowsComeNearTheBoundFromBelow) {
  StepBudget budget(milliseconds(50), 16);
  const auto step_time = [](int64_t decode, int64_t prefill) {
    return milliseconds(10) + microseconds(100) * (decode + prefill);
  };
  for (int i = 0; i < 8; ++i) budget.observe(4, 0, step_time(4, 0));
  int64_t rows = 0;
  for (int i = 0; i < 40; ++i) {
    rows = budget.prefill_rows(4);
    EXPECT_LE(step_time(4, rows), milliseconds(50)) << rows;
    budget.observe(4, rows, step_time(4, rows));
  }
  EXPECT_GE(rows, 330);  // 0.9 * 50 ms: 346 rows
}

TEST(StepBudget, RowsGrowTwofoldAtMost) {
  StepBudget budget(milliseconds(50), 16);
  budget.observe(4, 0, milliseconds(10));
  budget.observe(4, 16, milliseconds(10));  // as if rows cost nothing
  EXPECT_EQ(budget.prefill_rows(4), 32);
}

TEST(StepBudget, StreamsThatAreSlowerThanTheBoundLeaveTheLeastChunk) {
  StepBudget budget(milliseconds(50), 16);
  budget.observe(4, 0, milliseconds(80));
  budget.observe(4, 64, milliseconds(90));
  EXPECT_EQ(budget.prefill_rows(4), 16);
}

TEST(StepBudget, MoreStreamsThanEverWithoutAStepOfTheirOwnAreLearntFromMixedSteps) {
  StepBudget budget(milliseconds(50), 16);
  budget.observe(1, 0, milliseconds(5));
  const auto step_time = [](int64_t prefill) { return milliseconds(30) + microseconds(100) * prefill; };
  int64_t rows = 0;
  for (int i = 0; i < 100; ++i) {
    rows = budget.prefill_rows(40);
    EXPECT_LE(step_time(rows), milliseconds(50)) << rows;
    budget.observe(40, rows, step_time(rows));
  }
  EXPECT_GE(rows, 130);  // of 150
}

TEST(StepBudget, OneSlowStepIsForgotten) {
  StepBudget budget(milliseconds(50), 16);
  const auto step_time = [](int64_t prefill) { return milliseconds(10) + microseconds(100) * prefill; };
  budget.observe(4, 0, step_time(0));
  for (int i = 0; i < 20; ++i) budget.observe(4, 300, step_time(300));
  budget.observe(4, 300, milliseconds(2000));
  EXPECT_EQ(budget.prefill_rows(4), 16);
  for (int i = 0; i < 60; ++i) {
    const int64_t rows = budget.prefill_rows(4);
    budget.observe(4, rows, step_time(rows));
  }
  EXPECT_GE(budget.prefill_rows(4), 330);
}

// A prompt of 100,000 tokens arrives while streams decode.  The time of a step depends on its rows and on the context
// of each.  No stream waits longer than the bound, or than one step with the least chunk where the device is slower.
void a_long_prompt_arrives(Time bound, int64_t fewest_steps, int64_t most_steps) {
  SchedulerConfig config;
  config.cache = {.blocks = 1200,
                  .tokens_per_block = 128,
                  .full_snapshot_blocks = 4,
                  .early_snapshot_blocks = 2,
                  .early_interval = 4096,
                  .state_slots = 9};
  config.max_context = 110'000;
  config.max_sequences = 9;
  config.decode_latency = bound;
  WindowRule rule;
  auto scheduler = std::move(Scheduler::create(config, rule)).value();
  // What runs in a step is all that matters here: 8 ms, 50 us a row, and 0.5 us a row for every 1,000 tokens before it
  // (at the end of the prompt a row costs twice what it did at its beginning).
  constexpr RequestId kPrompt = 100;
  std::vector<int64_t> decoded(9);
  std::vector<Time> last_token(9), gaps;
  int64_t prompt_position = 0;
  bool prompt_is_done = false;
  Time now{0};
  const auto submit = [&](RequestId id, int64_t prompt_tokens, int64_t max_tokens) {
    ASSERT_TRUE(scheduler->submit(ScriptedEngine::request(id, prompt_tokens, max_tokens)).ok());
  };
  for (RequestId id = 1; id <= 8; ++id) submit(id, 40, 20'000);

  std::vector<StepPlan> in_flight;
  StepPlan plan;
  StepResult result;
  int64_t steps_of_the_prompt = 0;
  for (int64_t step = 0; !prompt_is_done && step < 20'000; ++step) {
    if (step == 100) submit(kPrompt, 100'000, 1);
    while (scheduler->next_plan(now, plan)) in_flight.push_back(plan);
    ASSERT_FALSE(in_flight.empty());
    const StepPlan run = in_flight.front();
    in_flight.erase(in_flight.begin());
    result.clear();
    result.plan = run.number;
    double seconds = 0.008 + 50e-6 * static_cast<double>(run.prefill_rows + run.decode_rows);
    for (const PrefillChunk& chunk : run.prefills) {
      seconds += static_cast<double>(chunk.rows) * 0.5e-9 * static_cast<double>(chunk.position);
      if (chunk.request == kPrompt) {
        EXPECT_EQ(chunk.position, prompt_position);
        prompt_position += chunk.rows;
        ++steps_of_the_prompt;
      }
    }
    result.duration = std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
    now += result.duration;
    const auto decide = [&](RequestId id) {
      SequenceResult of;
      of.request = id;
      of.first_token = static_cast<int64_t>(result.tokens.size());
      of.tokens = 1;
      result.tokens.push_back(5);
      if (id == kPrompt) {
        of.ended = EndReason::kLength;
        prompt_is_done = true;
      } else {
        if (decoded[id]++ > 0) gaps.push_back(now - last_token[id]);
        last_token[id] = now;
      }
      result.sequences.push_back(of);
    };
    for (const PrefillChunk& chunk : run.prefills) {
      if (chunk.last) {
        decide(chunk.request);
      } else {
        SequenceResult of;
        of.request = chunk.request;
        of.first_token = static_cast<int64_t>(result.tokens.size());
        result.sequences.push_back(of);
      }
    }
    for (const DecodeRows& rows : run.decodes) decide(rows.request);
    scheduler->advance(result);
  }
  ASSERT_TRUE(prompt_is_done);
  std::sort(gaps.begin(), gaps.end());
  const double one_step = 0.008 + 50e-6 * static_cast<double>(config.least_chunk + 8) +
                          static_cast<double>(config.least_chunk) * 0.5e-9 * 100'000;
  const Time most = std::max(bound, std::chrono::duration_cast<Time>(std::chrono::duration<double>(one_step)));
  EXPECT_LE(gaps[gaps.size() * 99 / 100], most);
  EXPECT_LE(gaps.back(), most);
  EXPECT_LE(steps_of_the_prompt, most_steps);
  EXPECT_GE(steps_of_the_prompt, fewest_steps);
}

TEST(StepBudget, StreamsDoNotWaitForALongPrompt) {
  // The prompt gets what the bound leaves: about 350 rows a step at a mean context of 50,000.
  a_long_prompt_arrives(milliseconds(50), 100'000 / 512, 250);
}

TEST(StepBudget, WhereAStepIsSlowerThanTheBoundStreamsWaitForOneStep) {
  a_long_prompt_arrives(milliseconds(5), 100'000 / 16, 100'000 / 16);
}

}  // namespace
}  // namespace deepinfer::testing
