// Preempted sequences and the tier below the pool.
#include <gtest/gtest.h>

#include "scheduling/scripted_engine.h"
#include "scheduling/simulated_tier.h"

namespace deepinfer::testing {
namespace {

class Swap : public ::testing::Test {
 protected:
  static SchedulerConfig few_blocks() {
    SchedulerConfig config = ScriptedEngine::small_config();
    config.cache.blocks = 16;
    return config;
  }
  void open_tier(const TierFaults& faults) {
    tier_ = std::make_unique<SimulatedTier>(engine_.scheduler(), engine_.executor(), rule_, faults, 1);
  }
  void step() {
    if (tier_) tier_->tick();
    while (engine_.make_plan()) {
    }
    if (engine_.executor().in_flight() > 0) engine_.answer();
  }
  void run_to_the_end() {
    for (int i = 0; !engine_.scheduler().idle(); ++i) {
      ASSERT_LT(i, 10'000);
      step();
    }
    EXPECT_EQ(engine_.scheduler().stats().held_blocks, 0);
    EXPECT_EQ(!tier_ || tier_->waiting() == 0, true);
  }
  // Four that grow to eight blocks each, of 16.
  void submit_four() {
    for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(engine_.submit(engine_.request(id, 40, 80)).ok());
  }
  // Steps until one of them waits for the tier; 0: none did.
  RequestId wait_for_a_question() {
    for (int i = 0; i < 10'000 && tier_->waiting() == 0; ++i) step();
    for (RequestId id = 1; id <= 4; ++id)
      if (tier_->waits(id)) return id;
    return 0;
  }

  WindowRule rule_;
  ScriptedEngine engine_{few_blocks()};
  std::unique_ptr<SimulatedTier> tier_;
};

TEST_F(Swap, WhatATierBringsBackIsNotComputedAgain) {
  open_tier({});
  submit_four();
  run_to_the_end();
  int64_t swapped = 0, recomputed = 0;
  for (const auto& [id, ended] : engine_.ended) {
    EXPECT_EQ(ended.answer_tokens, 80);
    swapped += ended.swapped_tokens;
    recomputed += ended.recomputed_tokens;
  }
  const SchedulerStats stats = engine_.scheduler().stats();
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_GT(swapped, 0);
  EXPECT_EQ(stats.swapped_tokens, swapped);
  EXPECT_EQ(stats.recomputed_tokens, recomputed);
  EXPECT_EQ(engine_.ended.at(1).preemptions, 0);  // the oldest
}

TEST_F(Swap, WithoutAnAnswerTheyAreComputedAgainWhenThePatienceIsOver) {
  open_tier({.read_delay = 1'000'000, .patience = 30});
  submit_four();
  run_to_the_end();
  EXPECT_GT(tier_->late, 0);
  EXPECT_EQ(engine_.scheduler().stats().swapped_tokens, 0);
  EXPECT_GT(engine_.scheduler().stats().recomputed_tokens, 0);
}

TEST_F(Swap, OthersAreAdmittedMeanwhile) {
  open_tier({.read_delay = 1'000'000, .patience = 1'000'000});
  submit_four();
  const RequestId waiting = wait_for_a_question();
  ASSERT_NE(waiting, 0u);
  ASSERT_TRUE(engine_.submit(engine_.request(9, 10, 2)).ok());
  for (int i = 0; i < 1000 && !engine_.has_ended(9); ++i) step();
  EXPECT_TRUE(engine_.has_ended(9));
  EXPECT_FALSE(engine_.has_ended(waiting));
  EXPECT_TRUE(tier_->waits(waiting));
  engine_.cancel(waiting);
  EXPECT_TRUE(engine_.has_ended(waiting));
  EXPECT_FALSE(tier_->waits(waiting));
  for (RequestId id = 1; id <= 4; ++id) engine_.cancel(id);
  run_to_the_end();
}

TEST_F(Swap, ADeadlineEndsTheWait) {
  open_tier({.read_delay = 1'000'000, .patience = 1'000'000});
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = engine_.request(id, 40, 80);
    if (id > 1) request.deadline = Time(1'000'000'000'000);
    ASSERT_TRUE(engine_.submit(request).ok());
  }
  const RequestId waiting = wait_for_a_question();
  ASSERT_NE(waiting, 0u);
  engine_.now = Time(1'000'000'000'000);
  run_to_the_end();
  EXPECT_EQ(engine_.ended.at(waiting).reason, EndReason::kDeadline);
  EXPECT_EQ(engine_.ended.at(1).answer_tokens, 80);
}

TEST_F(Swap, WhoKeepsOutOfTheCacheAsksNobody) {
  open_tier({});
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = engine_.request(id, 40, 80);
    request.reuse_prefix = request.publish_prefix = false;
    ASSERT_TRUE(engine_.submit(request).ok());
  }
  run_to_the_end();
  EXPECT_GT(engine_.scheduler().stats().preemptions, 0);
  EXPECT_EQ(tier_->questions, 0);
}

}  // namespace
}  // namespace deepinfer::testing
