// Who is admitted when, and who never.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduling/scripted_engine.h"

namespace deepinfer::testing {
namespace {

Request with_priority(Request request, int32_t priority) {
  request.priority = priority;
  return request;
}

TEST(Admission, EqualPrioritiesGoInTheOrderOfSubmission) {
  ScriptedEngine engine;
  for (RequestId id = 1; id <= 10; ++id) ASSERT_TRUE(engine.submit(engine.request(id, 20, 5)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.admitted, (std::vector<RequestId>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(Admission, TheHigherPriorityGoesFirst) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.max_sequences = 1;
  ScriptedEngine engine(config);
  const int32_t priorities[] = {0, 5, -3, 5, 0};
  for (RequestId id = 1; id <= 5; ++id)
    ASSERT_TRUE(engine.submit(with_priority(engine.request(id, 20, 5), priorities[id - 1])).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.admitted, (std::vector<RequestId>{2, 4, 1, 5, 3}));
}

TEST(Admission, ALaterRequestOfAHigherPriorityGetsThePrefillRowsFirst) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 500, 1)).ok());
  engine.run(1);
  ASSERT_TRUE(engine.submit(with_priority(engine.request(2, 100, 1), 1)).ok());
  engine.run_until_ended(2);
  EXPECT_FALSE(engine.has_ended(1));
  engine.run_to_the_end();
}

TEST(Admission, AllRowsOfAStepAreUsedBySeveralPrompts) {
  ScriptedEngine engine;
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(engine.submit(engine.request(id, 30, 5)).ok());
  ASSERT_TRUE(engine.make_plan());
  ASSERT_EQ(engine.plan.prefills.size(), 3u);
  EXPECT_EQ(engine.plan.prefills[0].rows, 30);
  EXPECT_EQ(engine.plan.prefills[1].rows, 30);
  EXPECT_EQ(engine.plan.prefills[2].rows, 4);
  engine.run_to_the_end();
}

TEST(Admission, APromptThatGetsNoRowsYetHoldsNoBlocks) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 400, 5)).ok());
  ASSERT_TRUE(engine.submit(engine.request(2, 400, 5)).ok());
  engine.run(2);
  EXPECT_EQ(engine.admitted, (std::vector<RequestId>{1}));
  engine.run_to_the_end();
}

TEST(Admission, ARequestThatDoesNotFitIsPassedByNoMoreThanItsLimit) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.most_passes = 3;
  ScriptedEngine engine(config);
  ASSERT_TRUE(engine.submit(engine.request(1, 500, 400)).ok());  // holds half the pool for a while
  engine.run(12);
  ASSERT_TRUE(engine.submit(engine.request(2, 700, 5)).ok());  // does not fit beside it
  for (RequestId id = 3; id <= 12; ++id) ASSERT_TRUE(engine.submit(engine.request(id, 20, 5)).ok());
  engine.run_until_ended(1);
  EXPECT_EQ(engine.admitted, (std::vector<RequestId>{1, 3, 4, 5}));
  engine.run_to_the_end();
  EXPECT_EQ(engine.admitted[4], 2u);
  EXPECT_EQ(engine.ended.size(), 12u);
}

TEST(Admission, APromptThatCanNeverFitIsRefusedWithBothNumbersAndTheQueueMoves) {
  ScriptedEngine engine;  // 64 blocks of 16 tokens; the context would allow 2,000
  ASSERT_TRUE(engine.submit(engine.request(1, 100, 5)).ok());
  const Status refused = engine.submit(engine.request(2, 65 * 16, 5));
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("1040 tokens"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("1024"), std::string::npos) << refused.message();
  ASSERT_TRUE(engine.submit(engine.request(3, 100, 5)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.size(), 2u);
}

TEST(Admission, APromptBeyondTheContextIsRefusedWithBothNumbers) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.max_context = 300;
  ScriptedEngine engine(config);
  const Status refused = engine.submit(engine.request(1, 300, 1));
  EXPECT_NE(refused.message().find("300 tokens and one of the answer"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("max_context 300"), std::string::npos) << refused.message();
  EXPECT_TRUE(engine.submit(engine.request(2, 299, 1)).ok());
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).reason, EndReason::kLength);
}

TEST(Admission, ASequenceIsNeverLongerThanTheContext) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.max_context = 100;
  for (const int drafts : {0, 5}) {
    ScriptedEngine engine(config);
    Request request = engine.request(1, 60, 1000);
    request.drafts = drafts;
    ASSERT_TRUE(engine.submit(request).ok());
    engine.run_to_the_end();
    EXPECT_EQ(engine.tokens(1).size(), 100u);
    EXPECT_EQ(engine.ended.at(1).reason, EndReason::kLength);
    EXPECT_EQ(engine.ended.at(1).answer_tokens, 40);
  }
}

TEST(Admission, AHugeAnswerLimitOverflowsNothingAndReservesNothing) {
  ScriptedEngine engine;
  Request request = engine.request(1, 20, int64_t{1} << 62);
  request.drafts = 4;
  ASSERT_TRUE(engine.submit(request).ok());
  Request most = engine.request(2, 20, std::numeric_limits<int64_t>::max());
  ASSERT_TRUE(engine.submit(most).ok());
  ASSERT_TRUE(engine.make_plan());
  EXPECT_EQ(engine.scheduler().stats().held_blocks, 2 * 2 + 2);  // two of each, and a snapshot of each
  engine.run_to_the_end();
  EXPECT_EQ(engine.tokens(1).size(), 1024u);  // what the pool holds
  EXPECT_EQ(engine.tokens(2).size(), 1024u);
}

TEST(Admission, WrongRequestsAreRefusedByFieldAndRange) {
  ScriptedEngine engine;
  const auto refusal = [&](const Request& request) { return engine.scheduler().submit(request).message(); };
  Request request = engine.request(1, 10, 5);
  request.prompt.clear();
  EXPECT_EQ(refusal(request), "prompt: empty; at least one token");
  EXPECT_EQ(refusal(engine.request(1, 10, 0)), "max_tokens is 0; at least 1");
  request = engine.request(1, 10, 5);
  request.drafts = -1;
  EXPECT_EQ(refusal(request), "drafts is -1; at least 0");
  request = engine.request(1, 10, 5);
  request.logits_from = 10;
  EXPECT_EQ(refusal(request), "logits_from is 10; a position of the prompt, 0 to 9, or -1 for its last");
  ASSERT_TRUE(engine.submit(engine.request(1, 10, 5)).ok());
  EXPECT_EQ(refusal(engine.request(1, 10, 5)), "request id 1 is in use; ids are used once");
  engine.run_to_the_end();
}

TEST(Admission, WrongConfigurationsAreRefusedByFieldAndRange) {
  WindowRule rule;
  const auto refusal = [&](auto change) {
    SchedulerConfig config = ScriptedEngine::small_config();
    change(config);
    return Scheduler::create(config, rule).status().message();
  };
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.step_rows = 3; }), "step_rows is 3; at least 4");
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.max_sequences = 5; }), "cache.state_slots is 4; at least 5");
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.plans_in_flight = 0; }), "plans_in_flight is 0; at least 1");
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.cache.early_interval = 40; }),
            "cache.early_interval is 40; a multiple of tokens_per_block, 16");
  EXPECT_EQ(refusal([](SchedulerConfig&) {}), "");
}

TEST(Steps, EveryDecodingSequenceIsInEveryPlan) {
  ScriptedEngine engine;
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(engine.submit(engine.request(id, 10, 100)).ok());
  engine.run(3);
  ASSERT_TRUE(engine.submit(engine.request(4, 500, 5)).ok());  // its chunks run beside them
  for (int i = 0; i < 20; ++i) {
    engine.step();
    EXPECT_GE(engine.plan.decodes.size(), 3u);
  }
  EXPECT_TRUE(std::any_of(engine.plans.begin(), engine.plans.end(),
                          [](const StepPlan& p) { return !p.prefills.empty() && p.decodes.size() == 3; }));
  engine.run_to_the_end();
}

TEST(Steps, NoRowIsPlannedBehindTheCertainEndOfAnAnswer) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 10, 1)).ok());
  ASSERT_TRUE(engine.make_plan());
  EXPECT_FALSE(engine.make_plan());  // its only token is on the way
  engine.run_to_the_end();
}

TEST(Steps, DraftsShareTheRowsThatAreLeft) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.step_rows = 10;
  ScriptedEngine engine(config);
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = engine.request(id, 5, 200);
    request.drafts = 8;
    ASSERT_TRUE(engine.submit(request).ok());
  }
  engine.run(8);
  ASSERT_EQ(engine.plan.decodes.size(), 4u);
  int64_t drafts = 0;
  for (const DecodeRows& rows : engine.plan.decodes) {
    EXPECT_GE(rows.drafts, 1);
    drafts += rows.drafts;
  }
  EXPECT_EQ(drafts, 6);
  engine.run_to_the_end();
}

}  // namespace
}  // namespace deepinfer::testing
