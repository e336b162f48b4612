// Pausing, sleeping and going on: no step runs meanwhile, answers are those of an engine that never stopped, nothing
// waits for ever, and wrong orders are told.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

using std::chrono::milliseconds;

const OpsBackend kCpu{"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }};

EngineOptions small_engine() {
  EngineOptions options;
  options.max_context = 2048;
  options.cache_bytes = 32 << 20;
  options.max_sequences = 4;
  options.draft_schedule = DraftSchedule::kAll;
  return options;
}

EngineRequest request(int64_t prompt_tokens, int64_t tokens) {
  static const std::vector<int32_t> text = ForwardGolden("recall").ids();
  EngineRequest request;
  request.prompt.assign(text.begin(), text.begin() + prompt_tokens);
  request.params = greedy_params(tokens, -1);
  request.params.stop_tokens.clear();
  return request;
}

class LifecycleTest : public testing::Test {
 protected:
  LifecycleTest() : run(kCpu, small_engine()) {}

  RequestId submit(const EngineRequest& asked) {
    requests.push_back(asked);
    ids.push_back(run.submit(asked).value());
    return ids.back();
  }
  void wait_for_tokens(RequestId id, int64_t tokens) {
    while (run.tokens_seen(id) < tokens) std::this_thread::sleep_for(milliseconds(1));
  }
  void wait_for_end(RequestId id) {
    while (!run.ended(id)) std::this_thread::sleep_for(milliseconds(1));
  }
  void expect_solo_answers() {
    const auto solo = open_generator(kCpu);
    for (size_t i = 0; i < ids.size(); ++i) {
      GenerationParams params = requests[i].params;
      params.draft_tokens = 0;
      expect_same_tokens(run.seen(ids[i]).tokens, generate(*solo, requests[i].prompt, params).tokens,
                         "request " + std::to_string(i));
    }
  }
  // No token comes while the engine rests.
  void expect_silence() {
    std::vector<int64_t> before;
    for (const RequestId id : ids) before.push_back(run.tokens_seen(id));
    std::this_thread::sleep_for(milliseconds(30));
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(run.tokens_seen(ids[i]), before[i]);
  }

  EngineRun run;
  std::vector<EngineRequest> requests;
  std::vector<RequestId> ids;
};

void expect_refused(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST_F(LifecycleTest, KeptRequestsGoOnWithTheSameBits) {
  submit(request(300, 120));
  submit(request(40, 200));
  wait_for_tokens(ids[1], 20);
  ASSERT_TRUE(run.engine().pause(PauseMode::kKeep).ok());
  EXPECT_EQ(run.engine().stats().state, EngineState::kPaused);
  submit(request(90, 10));  // waits
  expect_silence();
  EXPECT_FALSE(run.engine().drain()) << "it would wait for ever";
  ASSERT_TRUE(run.engine().resume().ok());
  run.drain();
  expect_solo_answers();
}

TEST_F(LifecycleTest, DrainingEndsWhatWasThereAndNothingElse) {
  submit(request(200, 60));
  submit(request(20, 40));
  std::future<Status> pause = std::async(std::launch::async, [&] { return run.engine().pause(PauseMode::kDrain); });
  ASSERT_TRUE(pause.get().ok());
  EXPECT_EQ(run.tokens_seen(ids[0]), 60);
  EXPECT_EQ(run.tokens_seen(ids[1]), 40);
  submit(request(30, 5));
  expect_silence();
  EXPECT_EQ(run.tokens_seen(ids[2]), 0);
  ASSERT_TRUE(run.engine().resume().ok());
  run.drain();
  expect_solo_answers();
}

TEST_F(LifecycleTest, SleepersComputeAgainWithTheSameBits) {
  submit(request(300, 100));
  submit(request(140, 150));
  submit(request(500, 20));
  wait_for_tokens(ids[1], 30);
  ASSERT_TRUE(run.engine().sleep(PauseMode::kKeep).ok());
  const EngineStats asleep = run.engine().stats();
  EXPECT_EQ(asleep.state, EngineState::kAsleep);
  EXPECT_EQ(asleep.scheduler.held_blocks, 0);
  EXPECT_EQ(asleep.scheduler.running, 0);
  submit(request(300, 10));
  expect_silence();
  ASSERT_TRUE(run.engine().wake_up().ok());
  run.drain();
  expect_solo_answers();
  EXPECT_GT(run.seen(ids[1]).ends.at(0).recomputed_tokens, 0);
}

TEST_F(LifecycleTest, ASleeperHasForgottenItsPrefixes) {
  submit(request(600, 4));
  run.drain();
  submit(request(600, 4));
  run.drain();
  EXPECT_GT(run.seen(ids[1]).ends.at(0).cached_tokens, 0);
  ASSERT_TRUE(run.engine().pause(PauseMode::kKeep).ok());
  ASSERT_TRUE(run.engine().sleep(PauseMode::kKeep).ok());
  ASSERT_TRUE(run.engine().wake_up().ok());
  EXPECT_EQ(run.engine().stats().state, EngineState::kPaused) << "it was paused before";
  ASSERT_TRUE(run.engine().resume().ok());
  submit(request(600, 4));
  run.drain();
  EXPECT_EQ(run.seen(ids[2]).ends.at(0).cached_tokens, 0);
  expect_solo_answers();
}

TEST_F(LifecycleTest, PrefixesAreForgottenUnderRunningRequests) {
  submit(request(600, 4));
  run.drain();
  submit(request(620, 120));
  wait_for_tokens(ids[1], 10);
  ASSERT_TRUE(run.engine().forget_prefixes({}).ok());
  EXPECT_EQ(run.engine().stats().state, EngineState::kRunning);
  submit(request(610, 60));
  run.drain();
  EXPECT_GT(run.seen(ids[1]).ends.at(0).cached_tokens, 0);
  EXPECT_EQ(run.seen(ids[2]).ends.at(0).cached_tokens, 0);
  ASSERT_TRUE(run.engine().pause(PauseMode::kKeep).ok());
  ASSERT_TRUE(run.engine().forget_prefixes({}).ok());
  EXPECT_EQ(run.engine().stats().state, EngineState::kPaused);
  ASSERT_TRUE(run.engine().resume().ok());
  submit(request(610, 5));
  run.drain();
  EXPECT_EQ(run.seen(ids[3]).ends.at(0).cached_tokens, 0);
  expect_solo_answers();
}

TEST_F(LifecycleTest, TimeGoesOnAndCancelsArriveWhilePaused) {
  const RequestId running = submit(request(30, 500));
  wait_for_tokens(running, 3);
  ASSERT_TRUE(run.engine().pause(PauseMode::kKeep).ok());
  EngineRequest late = request(30, 5);
  late.timeout = milliseconds(20);
  const RequestId waiting = run.submit(late).value();
  const RequestId unwanted = run.submit(request(30, 5)).value();
  run.engine().cancel(running);
  run.engine().cancel(unwanted);
  for (const RequestId id : {running, waiting, unwanted}) wait_for_end(id);
  EXPECT_TRUE(run.engine().drain()) << "all have ended although nothing runs";
  EXPECT_EQ(run.seen(waiting).ends.at(0).reason, EndReason::kDeadline);
  EXPECT_EQ(run.seen(running).ends.at(0).reason, EndReason::kCancelled);
  EXPECT_EQ(run.seen(unwanted).ends.at(0).reason, EndReason::kCancelled);
  ASSERT_TRUE(run.engine().resume().ok());
  const RequestId next = run.submit(request(10, 2)).value();
  run.drain();
  EXPECT_EQ(run.seen(next).tokens.size(), 2U);
}

TEST_F(LifecycleTest, WrongOrdersAreTold) {
  Engine& engine = run.engine();
  expect_refused(engine.resume(), "resume: the engine is running; allowed: after pause()");
  expect_refused(engine.wake_up(), "wake_up: the engine is running");
  ASSERT_TRUE(engine.pause(PauseMode::kKeep).ok());
  expect_refused(engine.pause(PauseMode::kDrain), "pause: the engine is paused");
  expect_refused(engine.wake_up(), "wake_up: the engine is paused");
  ASSERT_TRUE(engine.sleep(PauseMode::kDrain).ok()) << "nothing is under way";
  expect_refused(engine.resume(), "resume: the engine is asleep");
  expect_refused(engine.sleep(PauseMode::kKeep), "sleep: the engine is asleep");
  ASSERT_TRUE(engine.wake_up().ok());
  ASSERT_TRUE(engine.resume().ok());

  submit(request(20, 200));
  wait_for_tokens(ids[0], 3);
  ASSERT_TRUE(engine.pause(PauseMode::kKeep).ok());
  expect_refused(engine.sleep(PauseMode::kDrain), "sleep: mode is drain, but requests are under way");
  EXPECT_EQ(engine.stats().state, EngineState::kPaused);
  ASSERT_TRUE(engine.resume().ok());
  run.drain();
  expect_solo_answers();
}

TEST_F(LifecycleTest, OneChangeAtATime) {
  submit(request(20, 150));
  const auto pause = [&] { return run.engine().pause(PauseMode::kDrain); };
  std::future<Status> one = std::async(std::launch::async, pause), other = std::async(std::launch::async, pause);
  const Status first = one.get(), second = other.get();
  EXPECT_NE(first.ok(), second.ok());
  expect_refused(first.ok() ? second : first, "pause: ");  // under way, or done
  EXPECT_EQ(run.tokens_seen(ids[0]), 150);
  ASSERT_TRUE(run.engine().resume().ok());
}

TEST_F(LifecycleTest, CallbacksCannotWaitForThemselves) {
  std::promise<Status> told;
  EngineRequest asked = request(10, 1);
  ASSERT_TRUE(run.engine()
                  .submit(asked,
                          [&](const RequestUpdate& update) {
                            if (update.end != nullptr) told.set_value(run.engine().pause(PauseMode::kKeep));
                          })
                  .ok());
  expect_refused(told.get_future().get(), "on a thread of the engine");
}

TEST_F(LifecycleTest, APausedEngineCanBeClosed) {
  submit(request(30, 500));
  wait_for_tokens(ids[0], 3);
  ASSERT_TRUE(run.engine().sleep(PauseMode::kKeep).ok());
  submit(request(30, 5));
  run.close();
  for (const RequestId id : ids) EXPECT_EQ(run.seen(id).ends.at(0).reason, EndReason::kCancelled);
}

}  // namespace
}  // namespace deepinfer
