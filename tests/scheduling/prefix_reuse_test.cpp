// What sequences leave for others, and what they start from.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduling/scripted_engine.h"

namespace deepinfer::testing {
namespace {

Request same_prompt(Request request, RequestId id) {
  request.id = id;
  return request;
}

TEST(PrefixReuse, TheNextTurnOfAChatStartsAtTheLastBoundaryOfTheAnswer) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 100, 75)).ok());
  engine.run_to_the_end();
  Request next = engine.request(2, 0, 10);
  next.prompt = engine.tokens(1);  // 175 tokens, of which the last has no record
  ASSERT_EQ(next.prompt.size(), 175u);
  for (int32_t i = 1; i <= 30; ++i) next.prompt.push_back(i);
  ASSERT_TRUE(engine.submit(next).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 160);
}

TEST(PrefixReuse, TheNextTurnHitsEvenWhenItComesWithTheLastToken) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 100, 75)).ok());
  engine.run_until_ended(1);
  Request next = engine.request(2, 0, 10);
  next.prompt = engine.tokens(1);
  next.prompt.push_back(1);
  ASSERT_TRUE(engine.submit(next).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 160);
}

TEST(PrefixReuse, TheSamePromptAgainStartsAtItsLastBoundary) {
  ScriptedEngine engine;
  const Request first = engine.request(1, 100, 5);
  ASSERT_TRUE(engine.submit(first).ok());
  engine.run_to_the_end();
  ASSERT_TRUE(engine.submit(same_prompt(first, 2)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(1).cached_tokens, 0);
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 96);
  EXPECT_EQ(engine.scheduler().stats().cached_tokens, 96);
}

TEST(PrefixReuse, APromptOfWholeBlocksComputesItsLastBlock) {
  ScriptedEngine engine;
  const Request first = engine.request(1, 96, 1);
  ASSERT_TRUE(engine.submit(first).ok());
  engine.run_to_the_end();
  ASSERT_TRUE(engine.submit(same_prompt(first, 2)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 80);
}

TEST(PrefixReuse, APromptIsKnownAsSoonAsItsLastChunkIsAnswered) {
  ScriptedEngine engine;
  const Request first = engine.request(1, 100, 300);
  ASSERT_TRUE(engine.submit(first).ok());
  engine.run(6);
  ASSERT_FALSE(engine.has_ended(1));
  ASSERT_TRUE(engine.submit(same_prompt(first, 2)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 96);
}

TEST(PrefixReuse, TwoRequestsForOnePromptComputeItOnce) {
  ScriptedEngine engine;
  const Request first = engine.request(1, 400, 5);
  ASSERT_TRUE(engine.submit(first).ok());
  ASSERT_TRUE(engine.submit(same_prompt(first, 2)).ok());
  engine.run_to_the_end();
  // The second came in with the last chunk of the first: it has the early snapshots of what was answered by then.
  EXPECT_GE(engine.ended.at(2).cached_tokens, 256);
}

TEST(PrefixReuse, ChunksEndAtEarlyBoundariesAndASnapshotIsSavedThere) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.step_rows = 50;
  ScriptedEngine engine(config);
  ASSERT_TRUE(engine.submit(engine.request(1, 300, 2)).ok());
  engine.run_to_the_end();
  std::vector<int64_t> early, full;
  for (const StepPlan& plan : engine.plans) {
    for (const PrefillChunk& chunk : plan.prefills)
      EXPECT_EQ(chunk.position / 64, (chunk.position + chunk.rows - 1) / 64) << chunk.position << "+" << chunk.rows;
    for (const SnapshotCopy& copy : plan.saves_after)
      (copy.kind == SnapshotKind::kEarly ? early : full).push_back(copy.position);
    EXPECT_TRUE(plan.saves_before.empty()) << "the answer reaches no other boundary";
  }
  EXPECT_EQ(early, (std::vector<int64_t>{64, 128, 192, 256}));
  EXPECT_EQ(full, (std::vector<int64_t>{288}));
}

TEST(PrefixReuse, NoEarlySnapshotIsSavedWhereTheFullOneWillBe) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.step_rows = 300;
  ScriptedEngine engine(config);
  ASSERT_TRUE(engine.submit(engine.request(1, 130, 1)).ok());  // the last boundary is 128
  engine.run_to_the_end();
  ASSERT_EQ(engine.plans.size(), 3u);
  EXPECT_EQ(engine.plans[0].prefills[0].rows, 64);
  EXPECT_EQ(engine.plans[1].prefills[0].rows, 66);
  EXPECT_EQ(engine.executor().saves(), 2);
}

TEST(PrefixReuse, WhatAHitProvidedIsNotSavedAgain) {
  ScriptedEngine engine;
  const Request first = engine.request(1, 100, 1);
  ASSERT_TRUE(engine.submit(first).ok());
  engine.run_to_the_end();
  const int64_t saves = engine.executor().saves();
  ASSERT_TRUE(engine.submit(same_prompt(first, 2)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.executor().saves(), saves);
}

TEST(PrefixReuse, AShorterPromptWithinALongOneStartsAtAnEarlySnapshot) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 300, 1)).ok());
  engine.run_to_the_end();
  Request shorter = engine.request(1, 250, 1);
  shorter.id = 2;
  ASSERT_TRUE(engine.submit(shorter).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 192);
  EXPECT_EQ(engine.executor().early_restores(), 1);
}

TEST(PrefixReuse, RequestsMayStandAside) {
  const Request prompt = ScriptedEngine::request(1, 100, 1);
  const auto cached = [&](auto change_first, auto change_second) {
    ScriptedEngine engine;
    Request first = prompt, second = same_prompt(prompt, 2);
    change_first(first);
    change_second(second);
    EXPECT_TRUE(engine.submit(first).ok());
    engine.run_to_the_end();
    EXPECT_TRUE(engine.submit(second).ok());
    engine.run_to_the_end();
    return engine.ended.at(2).cached_tokens;
  };
  const auto as_it_is = [](Request&) {};
  EXPECT_EQ(cached(as_it_is, as_it_is), 96);
  EXPECT_EQ(cached([](Request& r) { r.publish_prefix = false; }, as_it_is), 0);
  EXPECT_EQ(cached(as_it_is, [](Request& r) { r.reuse_prefix = false; }), 0);
  EXPECT_EQ(cached(as_it_is, [](Request& r) { r.salt = 5; }), 0);
  EXPECT_EQ(cached(as_it_is, [](Request& r) { r.logits_from = 0; }), 0);
  EXPECT_EQ(cached(as_it_is, [](Request& r) { r.logits_from = 98; }), 96);
}

TEST(PrefixReuse, WithoutSnapshotsNothingIsSharedAndNothingIsCut) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.cache.full_snapshot_blocks = 0;
  ScriptedEngine engine(config);
  const Request first = engine.request(1, 300, 20);
  ASSERT_TRUE(engine.submit(first).ok());
  engine.run_to_the_end();
  ASSERT_TRUE(engine.submit(same_prompt(first, 2)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.executor().saves(), 0);
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 0);
  EXPECT_EQ(engine.plans.front().prefills.front().rows, 64);
}

TEST(PrefixReuse, WhatRanDuringAFlushOfTheCacheLeavesNothing) {
  ScriptedEngine engine;
  const Request first = engine.request(1, 100, 50);
  ASSERT_TRUE(engine.submit(first).ok());
  engine.run(10);
  engine.scheduler().clear_cache();
  engine.run_to_the_end();
  ASSERT_TRUE(engine.submit(same_prompt(first, 2)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 0);
  ASSERT_TRUE(engine.submit(same_prompt(first, 3)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(3).cached_tokens, 96);
}

}  // namespace
}  // namespace deepinfer::testing
