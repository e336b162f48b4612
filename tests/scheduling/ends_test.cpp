// Every request ends once, from whatever state, and what it held comes back.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "scheduling/scripted_engine.h"

namespace deepinfer::testing {
namespace {

constexpr RequestId kId = 1;

// Ways to bring request 1 into each of its states.
struct Stage {
  std::string name;
  std::function<void(ScriptedEngine&, const Request&)> reach;
};

void submit(ScriptedEngine& engine, const Request& request) {
  ASSERT_TRUE(engine.submit(request).ok());
}

const Stage kStages[] = {
    {"waiting", [](ScriptedEngine& e, const Request& r) { submit(e, r); }},
    {"first chunk in flight",
     [](ScriptedEngine& e, const Request& r) {
       submit(e, r);
       ASSERT_TRUE(e.make_plan());
     }},
    {"two chunks in flight",
     [](ScriptedEngine& e, const Request& r) {
       submit(e, r);
       ASSERT_TRUE(e.make_plan() && e.make_plan());
     }},
    {"between chunks",
     [](ScriptedEngine& e, const Request& r) {
       submit(e, r);
       ASSERT_TRUE(e.make_plan());
       e.answer();
     }},
    {"last chunk and decode rows in flight",
     [](ScriptedEngine& e, const Request& r) {
       submit(e, r);
       while (e.plan.decodes.empty()) {
         if (!e.make_plan()) e.answer();
       }
     }},
    {"decoding",
     [](ScriptedEngine& e, const Request& r) {
       submit(e, r);
       e.run(20);
       ASSERT_GT(e.tokens(kId).size(), r.prompt.size());
     }},
};

Request long_request() {
  Request request = ScriptedEngine::request(kId, 150, 400);
  request.drafts = 3;
  return request;
}

TEST(Cancel, EndsARequestInEveryStateAndGivesItsBlocksBackWithinOnePlan) {
  for (const Stage& stage : kStages) {
    SCOPED_TRACE(stage.name);
    ScriptedEngine engine;
    stage.reach(engine, long_request());
    const size_t tokens = engine.tokens(kId).size();
    engine.cancel(kId);
    ASSERT_TRUE(engine.has_ended(kId));  // at once
    EXPECT_EQ(engine.ended.at(kId).reason, EndReason::kCancelled);
    EXPECT_EQ(engine.ended.at(kId).answer_tokens, static_cast<int64_t>(tokens) - 150);
    engine.cancel(kId);  // again: nothing
    while (engine.executor().in_flight() > 0) engine.answer();
    EXPECT_EQ(engine.make_plan(), stage.name != "waiting");
    if (stage.name != "waiting") {
      EXPECT_EQ(engine.plan.retirements, std::vector<RequestId>{kId});
      EXPECT_TRUE(engine.plan.prefills.empty() && engine.plan.decodes.empty());
      engine.answer();
    }
    EXPECT_TRUE(engine.scheduler().idle());
    EXPECT_EQ(engine.scheduler().stats().held_blocks, 0);
    EXPECT_EQ(engine.tokens(kId).size(), tokens);
  }
}

TEST(Cancel, InTheMiddleOfALongPromptLetsTheNextOneInWithinOnePlan) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 900, 10)).ok());
  ASSERT_TRUE(engine.submit(engine.request(2, 900, 10)).ok());
  engine.run(3);
  EXPECT_EQ(engine.admitted, (std::vector<RequestId>{1}));
  engine.cancel(1);
  engine.answer();  // what was in flight
  ASSERT_TRUE(engine.make_plan());
  EXPECT_EQ(engine.plan.retirements, std::vector<RequestId>{1});
  engine.answer();
  ASSERT_TRUE(engine.make_plan());
  EXPECT_EQ(engine.admitted, (std::vector<RequestId>{1, 2}));
  engine.run_to_the_end();
}

TEST(Cancel, OfAWaitingRequestInTheMiddleLeavesTheOthersTheirOrder) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.max_sequences = 1;
  ScriptedEngine engine(config);
  for (RequestId id = 1; id <= 5; ++id) ASSERT_TRUE(engine.submit(engine.request(id, 20, 5)).ok());
  engine.run(1);
  engine.cancel(3);
  engine.run_to_the_end();
  EXPECT_EQ(engine.admitted, (std::vector<RequestId>{1, 2, 4, 5}));
}

TEST(Cancel, OfAPreemptedRequestOnItsWayOut) {
  SchedulerConfig config = ScriptedEngine::small_config();
  config.cache.blocks = 12;
  ScriptedEngine engine(config);
  ASSERT_TRUE(engine.submit(engine.request(1, 60, 100)).ok());
  ASSERT_TRUE(engine.submit(engine.request(2, 60, 100)).ok());
  while (engine.scheduler().stats().preemptions == 0) engine.step();
  ASSERT_GT(engine.executor().in_flight(), 0);
  EXPECT_EQ(engine.scheduler().stats().waiting, 1);
  engine.cancel(2);
  EXPECT_EQ(engine.ended.at(2).reason, EndReason::kCancelled);
  EXPECT_EQ(engine.ended.at(2).preemptions, 1);
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(1).answer_tokens, 100);
}

TEST(Cancel, OfSomethingUnknownDoesNothing) {
  ScriptedEngine engine;
  engine.cancel(7);
  EXPECT_TRUE(engine.scheduler().idle());
}

TEST(Cancel, TheCompletedPartOfAPromptServesTheRetry) {
  ScriptedEngine engine;
  ASSERT_TRUE(engine.submit(engine.request(1, 500, 10)).ok());
  engine.run(4);
  engine.cancel(1);
  engine.run_to_the_end();
  Request retry = engine.request(1, 500, 10);
  retry.id = 2;
  ASSERT_TRUE(engine.submit(retry).ok());
  engine.run_to_the_end();
  EXPECT_GE(engine.ended.at(2).cached_tokens, 4 * 64);
}

TEST(Deadline, EndsARequestInEveryState) {
  for (const Stage& stage : kStages) {
    SCOPED_TRACE(stage.name);
    ScriptedEngine engine;
    Request request = long_request();
    request.deadline = Time(1'000'000'000'000);
    stage.reach(engine, request);
    ASSERT_FALSE(engine.has_ended(kId));
    EXPECT_EQ(engine.scheduler().next_deadline(), request.deadline);
    engine.now = request.deadline;
    while (engine.executor().in_flight() > 0) engine.answer();
    engine.make_plan();
    ASSERT_TRUE(engine.has_ended(kId));
    EXPECT_EQ(engine.ended.at(kId).reason, EndReason::kDeadline);
    EXPECT_EQ(engine.scheduler().next_deadline(), kNever);
    engine.run_to_the_end();
  }
}

TEST(Deadline, EndsARequestEvenWhenNoPlanCanBeMade) {
  ScriptedEngine engine;
  Request request = long_request();
  request.deadline = Time(1'000'000'000'000);
  submit(engine, request);
  ASSERT_TRUE(engine.make_plan() && engine.make_plan());
  engine.now = request.deadline;
  EXPECT_FALSE(engine.make_plan());
  EXPECT_TRUE(engine.has_ended(kId));
  engine.run_to_the_end();
}

TEST(Deadline, TheNearestIsTold) {
  ScriptedEngine engine;
  EXPECT_EQ(engine.scheduler().next_deadline(), kNever);
  for (const int64_t time : {500, 300, 400}) {
    Request request = engine.request(static_cast<RequestId>(time), 20, 5);
    request.deadline = Time(time);
    ASSERT_TRUE(engine.submit(request).ok());
  }
  EXPECT_EQ(engine.scheduler().next_deadline(), Time(300));
  engine.cancel(300);
  EXPECT_EQ(engine.scheduler().next_deadline(), Time(400));
  engine.run_to_the_end();
}

TEST(Error, EndsItsOwnRequestOnlyAndLeavesNothingForOthers) {
  ExecutorConfig executor;
  executor.error_probability = 1;
  ScriptedEngine engine(ScriptedEngine::small_config(), executor);
  submit(engine, engine.request(1, 100, 10));
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(1).reason, EndReason::kError);
  EXPECT_EQ(engine.ended.at(1).answer_tokens, 0);

  executor.error_probability = 0.01;
  ScriptedEngine mixed(ScriptedEngine::small_config(), executor);
  for (RequestId id = 1; id <= 40; ++id) submit(mixed, mixed.request(id, 50, 30));
  mixed.run_to_the_end();
  int64_t errors = 0;
  for (const auto& [id, ended] : mixed.ended) {
    errors += ended.reason == EndReason::kError;
    if (ended.reason != EndReason::kError) {
      EXPECT_EQ(ended.answer_tokens, 30);
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_LT(errors, 40);
}

TEST(Error, OfRowsInFlightWhenTheirRequestIsCancelledLeavesNothingForOthers) {
  ExecutorConfig executor;
  executor.error_probability = 1;
  SchedulerConfig config = ScriptedEngine::small_config();
  config.step_rows = 50;
  ScriptedEngine engine(config, executor);
  submit(engine, engine.request(1, 500, 10));
  ASSERT_TRUE(engine.make_plan());  // a chunk that will fail
  engine.cancel(1);
  ASSERT_TRUE(engine.make_plan());
  ASSERT_EQ(engine.plan.saves_before.size(), 1u);  // the scheduler cannot know
  engine.run_to_the_end();
  Request retry = engine.request(1, 500, 10);
  retry.id = 2;
  submit(engine, retry);
  engine.run_to_the_end();
  EXPECT_EQ(engine.ended.at(2).cached_tokens, 0);
}

}  // namespace
}  // namespace deepinfer::testing
