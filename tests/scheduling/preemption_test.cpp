// What happens when the pool has no block left.
#include "scheduling/preemption.h"

#include <gtest/gtest.h>

#include <list>

#include "scheduling/scripted_engine.h"

namespace deepinfer::testing {
namespace {

class Victim : public ::testing::Test {
 protected:
  Sequence& running(int32_t priority, int64_t written) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.request.priority = priority;
    sequence.order = sequences_.size();
    sequence.tokens.resize(static_cast<size_t>(written + 1));
    sequence.state = Decoding{};
    running_.add(sequence);
    return sequence;
  }
  Sequence& prefilling(int32_t priority, int64_t planned) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.request.priority = priority;
    sequence.order = sequences_.size();
    Prefilling state;
    state.planned = planned;
    sequence.state = std::move(state);
    running_.add(sequence);
    return sequence;
  }
  std::list<Sequence> sequences_;
  RunningSet running_;
};

TEST_F(Victim, IsTheOneThatLosesTheFewestTokens) {
  running(0, 50);
  running(0, 100);
  const Sequence& least = running(0, 70);
  running(0, 80);
  EXPECT_EQ(choose_victim(running_), &least);
  const Sequence& prompt = prefilling(0, 16);
  EXPECT_EQ(choose_victim(running_), &prompt);
}

TEST_F(Victim, IsOfTheLowestPriority) {
  running(2, 10);
  running(1, 20);
  const Sequence& lowest = running(0, 500);
  running(0, 600);
  EXPECT_EQ(choose_victim(running_), &lowest);
}

TEST_F(Victim, IsNeverTheOldestOfTheHighestPriority) {
  running(0, 10);
  EXPECT_EQ(choose_victim(running_), nullptr);
  const Sequence& other = running(0, 100);
  EXPECT_EQ(choose_victim(running_), &other);
}

TEST_F(Victim, OfEqualsIsTheLatest) {
  running(0, 10);
  running(0, 10);
  const Sequence& latest = running(0, 10);
  EXPECT_EQ(choose_victim(running_), &latest);
}

SchedulerConfig few_blocks(int64_t blocks) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.cache.blocks = blocks;
  return config;
}

TEST(Preemption, APreemptedRequestLosesNoTokenAndGoesOnBeforeLaterOnes) {
  ScriptedEngine engine(few_blocks(12));
  for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(engine.submit(engine.request(id, 30, 90)).ok());
  engine.run_to_the_end();
  int64_t preemptions = 0;
  for (const auto& [id, ended] : engine.ended) {
    EXPECT_EQ(ended.reason, EndReason::kLength);
    EXPECT_EQ(ended.answer_tokens, 90);
    preemptions += ended.preemptions;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(engine.ended.at(1).preemptions, 0);  // the oldest
  EXPECT_EQ(engine.scheduler().stats().preemptions, preemptions);
  // In the order of submission they came, and so they come again.
  std::vector<RequestId> first_admissions;
  for (const RequestId id : engine.admitted)
    if (std::find(first_admissions.begin(), first_admissions.end(), id) == first_admissions.end())
      first_admissions.push_back(id);
  EXPECT_EQ(first_admissions, (std::vector<RequestId>{1, 2, 3, 4}));
}

TEST(Preemption, TheLowerPriorityGivesWay) {
  ScriptedEngine engine(few_blocks(12));
  Request low = engine.request(1, 60, 100), high = engine.request(2, 60, 100);
  high.priority = 1;
  ASSERT_TRUE(engine.submit(low).ok());
  ASSERT_TRUE(engine.submit(high).ok());
  engine.run_to_the_end();
  EXPECT_GT(engine.ended.at(1).preemptions, 0);
  EXPECT_EQ(engine.ended.at(2).preemptions, 0);
}

// A long prompt has all its blocks while it is prefilled; the sequence that decodes runs out of blocks.  Where the
// decoding one was put in front of the prompt, and the prompt kept its blocks, neither went on.
TEST(Preemption, APromptThatHoldsThePoolAndASequenceThatGrowsBothComeToAnEnd) {
  for (const int32_t priority_of_prompt : {-1, 0, 1}) {
    SchedulerConfig config = few_blocks(22);
    config.step_rows = 8;  // many chunks
    config.least_chunk = 4;
    ScriptedEngine engine(config);
    ASSERT_TRUE(engine.submit(engine.request(1, 14, 150)).ok());
    engine.run(5);
    Request prompt = engine.request(2, 270, 30);
    prompt.priority = priority_of_prompt;
    ASSERT_TRUE(engine.submit(prompt).ok());
    engine.run_to_the_end();
    EXPECT_EQ(engine.ended.at(1).answer_tokens, 150);
    EXPECT_EQ(engine.ended.at(2).answer_tokens, 30);
    EXPECT_GT(engine.scheduler().stats().preemptions, 0);
  }
}

TEST(Preemption, WhereTheSnapshotOfThePreemptedStaysCachedItLosesLessThanABlock) {
  // At 160 tokens each has ten blocks and wants one more; the first three end five tokens later.
  ScriptedEngine engine(few_blocks(44));
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = engine.request(id, 100, 65);
    request.publish_prefix = id == 4;
    ASSERT_TRUE(engine.submit(request).ok());
  }
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(4).preemptions, 1);
  EXPECT_LE(engine.ended.at(4).recomputed_tokens, 16);
}

TEST(Preemption, DraftsTakeNoBlockFromOthers) {
  ScriptedEngine engine(few_blocks(8));
  for (RequestId id = 1; id <= 2; ++id) {
    Request request = engine.request(id, 40, 16);  // 56 tokens: four blocks each, if no draft takes a fifth
    request.drafts = 8;
    request.publish_prefix = false;
    ASSERT_TRUE(engine.submit(request).ok());
  }
  engine.run_to_the_end();
  EXPECT_EQ(engine.scheduler().stats().preemptions, 0);
}

TEST(Preemption, PromptLogitsAreComputedOnce) {
  ScriptedEngine engine(few_blocks(12));
  for (RequestId id = 1; id <= 3; ++id) {
    Request request = engine.request(id, 40, 90);
    request.logits_from = 0;
    ASSERT_TRUE(engine.submit(request).ok());
  }
  engine.run_to_the_end();  // the executor checks where each admission may start
  EXPECT_GT(engine.scheduler().stats().preemptions, 0);
}

}  // namespace
}  // namespace deepinfer::testing
