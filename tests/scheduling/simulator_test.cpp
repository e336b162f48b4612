// The scheduler and its cache under random load and faults (simulator.h).
// A seed that fails is named; it alone runs with DEEPINFER_SIMULATOR_SEED=<seed> in the environment, others than the
// usual ones with DEEPINFER_SIMULATOR_FIRST_SEED=<seed>.
#include "scheduling/simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace deepinfer::testing {
namespace {

// DEEPINFER_SIMULATOR_RUNS runs of 1,000 steps each.  The long program looks into scheduler and cache less often, for
// time; what the executor reads is checked in every row of every step.
constexpr int64_t kStepsOfARun = 1000;
constexpr int64_t kRuns = DEEPINFER_SIMULATOR_RUNS;
constexpr int64_t kCheckEvery = kRuns > 100 ? 10 : 1;

TEST(Simulator, RandomLoadAndFaultsBreakNothing) {
  if (const char* seed = std::getenv("DEEPINFER_SIMULATOR_SEED")) {
    std::cout << simulate(std::strtoull(seed, nullptr, 10), kStepsOfARun, 1).to_string() << "\n";
    return;
  }
  SimulationReport all;
  const char* other = std::getenv("DEEPINFER_SIMULATOR_FIRST_SEED");
  const uint64_t first = other == nullptr ? 1 : std::strtoull(other, nullptr, 10);
  for (uint64_t i = 0; i < kRuns; ++i) all += simulate(first + i, kStepsOfARun, kCheckEvery);
  std::cout << all.to_string() << "\n";
  // The runs had what they are meant to have.
  EXPECT_GE(all.steps, kRuns * kStepsOfARun * 95 / 100);
  for (const int64_t count : {all.refused, all.stopped, all.full_length, all.cancelled, all.overdue, all.failed,
                              all.preemptions, all.early_hits, all.snapshots_left_out, all.recomputed_tokens,
                              all.swapped_tokens, all.vacated, all.forgotten, all.passes})
    EXPECT_GE(count, kRuns) << all.to_string();
  EXPECT_GE(all.hits, 10 * kRuns);
  for (const int64_t count : {all.tier_questions, all.tier_found, all.tier_late})
    EXPECT_GE(count, kRuns / 20) << all.to_string();
}

TEST(Simulator, TheSameSeedGivesTheSameTrace) {
  for (const uint64_t seed : {7, 8, 9}) {
    const SimulationReport first = simulate(seed, 300, 1), second = simulate(seed, 300, 100);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_EQ(first.to_string(), second.to_string());
  }
}

}  // namespace
}  // namespace deepinfer::testing
