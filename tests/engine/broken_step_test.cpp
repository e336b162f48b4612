// What breaks inside an engine costs the requests concerned: a model, a callback or an observer that throws ends no
// process and loses no request, and the others keep their bits.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <new>
#include <stdexcept>

#include "backends/cpu_backends.h"
#include "bench/null_model.h"
#include "engine/delegating_model.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/open_model.h"
#include "models/synthetic_model.h"
#include "ops/watched_ops.h"

namespace deepinfer {
namespace {

constexpr int32_t kVocabulary = 512;

// Another model, and a function that is called before each of its calls.
class WatchedModel final : public DelegatingModel {
 public:
  enum class Call { kForward, kDraft };
  using Before = std::function<void(Call)>;

  WatchedModel(std::unique_ptr<Model> model, Before before)
      : DelegatingModel(std::move(model)), before_(std::move(before)) {}

  MatrixView<float> forward(std::span<const StepSequence> step) override {
    before_(Call::kForward);
    return DelegatingModel::forward(step);
  }
  DraftResult draft(std::span<const DraftSequence> sequences) override {
    before_(Call::kDraft);
    return DelegatingModel::draft(sequences);
  }

 private:
  Before before_;
};

const OpsBackend kCpu{"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }};

EngineOptions null_engine(WatchedModel::Before before) {
  EngineOptions options;
  options.make_model = [before = std::move(before)](const StepLimits& limits,
                                                    Ops& ops) -> Result<std::unique_ptr<Model>> {
    DI_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                        bench::NullModel::create({.vocabulary = kVocabulary, .max_context = 4096}, limits, ops));
    return std::unique_ptr<Model>(std::make_unique<WatchedModel>(std::move(model), before));
  };
  options.cache_bytes = 512 * 512;
  options.max_sequences = 2;
  return options;
}

EngineRequest counting_from(int32_t first, int64_t tokens) {
  EngineRequest request;
  request.prompt = {first};
  request.params = greedy_params(tokens, 0);
  request.params.logprobs = -1;
  request.params.stop_tokens.clear();
  return request;
}

// A null model counts; `error`: the answer may have stopped at any token.
void expect_count(const SeenRequest& seen, int32_t first, int64_t tokens, const std::string& error = {}) {
  ASSERT_EQ(seen.ends.size(), 1U);
  const RequestSummary& end = seen.ends.front();
  EXPECT_EQ(end.reason, error.empty() ? EndReason::kLength : EndReason::kError);
  EXPECT_NE(end.failure.message().find(error), std::string::npos) << end.failure.message();
  EXPECT_EQ(end.answer_tokens, std::ssize(seen.tokens));
  if (error.empty()) {
    EXPECT_EQ(std::ssize(seen.tokens), tokens);
  } else {
    EXPECT_LT(std::ssize(seen.tokens), tokens);
  }
  for (size_t i = 0; i < seen.tokens.size(); ++i)
    ASSERT_EQ(seen.tokens[i].token, (first + 1 + static_cast<int32_t>(i)) % kVocabulary);
}

TEST(BrokenStep, EndsItsRequestsAndNoOthers) {
  for (const int which : {0, 1, 2}) {
    int calls = 0;
    EngineRun run(kCpu, null_engine([&](WatchedModel::Call) {
                    if (++calls != 20) return;
                    if (which == 0) throw std::bad_alloc();
                    if (which == 1) throw std::runtime_error("the device is gone");
                    throw 42;
                  }));
    const std::string what[] = {"a step: not enough memory", "a step: the device is gone", "a step: an exception"};
    std::vector<RequestId> ids;
    for (int i = 0; i < 5; ++i) ids.push_back(run.submit(counting_from(10 * i, 50)).value());
    run.drain();
    for (int i = 0; i < 5; ++i)
      expect_count(run.seen(ids[static_cast<size_t>(i)]), 10 * i, 50, i < 2 ? what[which] : "");
    EXPECT_EQ(run.seen(ids[0]).ends.at(0).failure.code(),
              which == 0 ? StatusCode::kResourceExhausted : StatusCode::kInternal);
    EXPECT_EQ(run.engine().stats().state, EngineState::kRunning);
    const SchedulerStats stats = run.engine().stats().scheduler;
    EXPECT_EQ(stats.submitted, stats.ended);
    EXPECT_EQ(stats.running + stats.waiting, 0);
  }
}

// A device that has told of an error computes nothing more.
class SickOps final : public WatchedOps {
 public:
  SickOps(std::unique_ptr<Ops> ops, int healthy_steps) : WatchedOps(std::move(ops)), left_(healthy_steps) {}
  Status health() override { return left_-- > 0 ? Status() : Status(StatusCode::kDeviceFailure, "an illegal address"); }

 private:
  int left_;
};

TEST(BrokenStep, ADeviceErrorEndsTheEngineAndNoStepOfItIsTold) {
  EngineRun run({"sick", [] { return std::make_unique<SickOps>(kCpu.make(), 20); }},
                null_engine([](WatchedModel::Call) {}));
  std::vector<RequestId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(run.submit(counting_from(10 * i, 50)).value());
  run.engine().drain();
  for (int i = 0; i < 3; ++i)
    expect_count(run.seen(ids[static_cast<size_t>(i)]), 10 * i, 50, "its device: an illegal address");
  EXPECT_EQ(std::ssize(run.seen(ids[0]).tokens), 20);
  EXPECT_EQ(run.engine().stats().state, EngineState::kFailed);
  EXPECT_EQ(run.submit(counting_from(1, 1)).status().code(), StatusCode::kDeviceFailure);
}

// Chunks of a prompt that follow a broken one are in flight already.
TEST(BrokenStep, APromptInSeveralChunks) {
  for (const int broken : {1, 2, 3, 5, 6}) {
    int calls = 0;
    EngineOptions options = null_engine([&](WatchedModel::Call) {
      if (++calls == broken) throw std::bad_alloc();
    });
    options.step_rows = 100;
    EngineRun run(kCpu, options);
    EngineRequest longer = counting_from(1, 3);
    for (int32_t i = 2; i <= 500; ++i) longer.prompt.push_back(i % kVocabulary);
    const RequestId first = run.submit(longer).value();
    run.drain();
    expect_count(run.seen(first), 500, 3, "a step: not enough memory");
    const RequestId again = run.submit(longer).value();
    run.drain();
    expect_count(run.seen(again), 500, 3);
    // What steps before the broken one have saved is good.
    if (broken <= 3) {
      EXPECT_EQ(run.seen(again).ends.at(0).cached_tokens, 0) << "nothing of what failed was kept";
    }
  }
}

// Every call of a real model in turn, with drafts, rejection sampling, penalties and a cache that preempts.
TEST(BrokenStep, WithDraftsAndPreemptionOthersKeepTheirBits) {
  const TemporaryFolder folder;
  write_synthetic_model(folder, synthetic_config(nlohmann::json::object()), 11);
  const auto options = [&](WatchedModel::Before before) {
    EngineOptions o;
    o.model = folder.path();
    o.max_context = 512;
    o.cache_bytes = 8 * 128 * 5000;
    o.max_sequences = 3;
    o.draft_schedule = DraftSchedule::kAll;
    if (before) {
      o.make_model = [&folder, before](const StepLimits& limits, Ops& ops) -> Result<std::unique_ptr<Model>> {
        ModelOptions wanted;
        wanted.folder = folder.path();
        wanted.limits = limits;
        DI_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, open_model(wanted, ops));
        return std::unique_ptr<Model>(std::make_unique<WatchedModel>(std::move(model), before));
      };
    }
    return o;
  };
  std::vector<EngineRequest> asked;
  for (int r = 0; r < 6; ++r) {
    EngineRequest& request = asked.emplace_back();
    for (int i = 0; i < 60 + 50 * r; ++i) request.prompt.push_back(3 + (i * 7 + r * 13 + i / 5) % 400);
    request.params = greedy_params(12, r % 3 == 0 ? 0 : -1);
    request.params.stop_tokens.clear();
    if (r % 2 == 1) {
      request.params.temperature = 1;
      request.params.seed = static_cast<uint64_t>(r);
      request.params.speculative_sampling = SpeculativeSampling::kRejection;
    }
    if (r == 4) request.params.repetition_penalty = 1.2F;
    if (r == 2) request.min_tokens = 5;
  }
  std::vector<std::vector<GeneratedToken>> want;
  {
    EngineRun whole(kCpu, options(nullptr));
    for (const EngineRequest& request : asked) {
      const RequestId id = whole.submit(request).value();
      whole.drain();
      want.push_back(whole.seen(id).tokens);
    }
  }
  int failed = 0, complete = 0;
  for (int broken = 1, calls = broken; calls >= broken; broken += 1 + broken / 6) {
    calls = 0;
    EngineRun run(kCpu, options([&](WatchedModel::Call) {
                    if (++calls == broken) throw std::bad_alloc();
                  }));
    std::vector<RequestId> ids;
    for (const EngineRequest& request : asked) ids.push_back(run.submit(request).value());
    run.drain();
    for (size_t i = 0; i < ids.size(); ++i) {
      const SeenRequest& seen = run.seen(ids[i]);
      ASSERT_EQ(seen.ends.size(), 1U);
      const bool error = seen.ends.front().reason == EndReason::kError;
      ++(error ? failed : complete);
      std::vector<GeneratedToken> expected = want[i];
      if (error) {
        ASSERT_LE(seen.tokens.size(), expected.size());
        expected.resize(seen.tokens.size());
      }
      expect_same_tokens(seen.tokens, expected,
                         "call " + std::to_string(broken) + " throws, request " + std::to_string(i));
    }
  }
  EXPECT_GT(failed, 10);
  EXPECT_GT(complete, failed);
}

TEST(BrokenStep, ACallbackThatThrowsCostsItsRequestOnly) {
  const auto engine = Engine::open(null_engine([](WatchedModel::Call) {}), kCpu.make()).value();
  int64_t calls = 0, counted = 0;
  RequestSummary thrown, ended;
  EngineRequest asked = counting_from(1, 2000);
  ASSERT_TRUE(engine
                  ->submit(asked,
                           [&](const RequestUpdate& update) {
                             ++calls;
                             if (update.end != nullptr) thrown = *update.end;
                             if (calls == 3) throw std::runtime_error("the client is gone");
                             if (update.end != nullptr) throw std::bad_alloc();  // too late to matter
                           })
                  .ok());
  ASSERT_TRUE(engine
                  ->submit(asked,
                           [&](const RequestUpdate& update) {
                             counted += std::ssize(update.tokens);
                             if (update.end != nullptr) ended = *update.end;
                           })
                  .ok());
  EXPECT_TRUE(engine->drain());
  EXPECT_EQ(calls, 4) << "nothing after what it threw but the end";
  EXPECT_EQ(thrown.reason, EndReason::kError);
  EXPECT_EQ(thrown.failure.message(), "the request's callback: the client is gone");
  EXPECT_EQ(counted, 2000);
  EXPECT_EQ(ended.reason, EndReason::kLength);
}

class ThrowingObserver final : public EngineObserver {
 public:
  void step_done(const StepPlan&, const StepOutcome&, const SchedulerStats&, const StepTimes&) override {
    throw std::bad_alloc();
  }
  void request_ended(RequestId, const RequestSummary&, Time) override { throw std::bad_alloc(); }
  void updated(const RequestUpdate&, Time) override { throw std::bad_alloc(); }
  void delivered(int64_t, Time, Time) override { throw std::bad_alloc(); }
};

TEST(BrokenStep, AnObserverThatThrowsCostsNobodyAnything) {
  EngineOptions options = null_engine([](WatchedModel::Call) {});
  options.observers = {std::make_shared<ThrowingObserver>()};
  EngineRun run(kCpu, options);
  const RequestId id = run.submit(counting_from(5, 40)).value();
  run.drain();
  expect_count(run.seen(id), 5, 40);
}

// A request may end while a step with its rows still runs, in which something may go wrong.
TEST(BrokenStep, DrainingWaitsForTheStepsOfWhatHasEnded) {
  std::promise<void> begun;
  std::atomic<int> calls = 0, left = 0;
  std::promise<void> ended;
  const auto engine = Engine::open(null_engine([&](WatchedModel::Call) {
                                     if (++calls == 3) {
                                       begun.set_value();
                                       ended.get_future().wait();
                                       std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                     }
                                     left = calls.load();
                                   }),
                                   kCpu.make())
                          .value();
  const RequestId id = engine
                           ->submit(counting_from(7, 1000),
                                    [&](const RequestUpdate& update) {
                                      if (update.end != nullptr) ended.set_value();
                                    })
                           .value();
  begun.get_future().wait();
  engine->cancel(id);
  EXPECT_TRUE(engine->drain());
  EXPECT_EQ(left, calls) << "the model still works";
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Whoever closes an engine during a long step waits for it asleep.
TEST(BrokenStep, ClosingWaitsForAStepWithoutSpinning) {
  std::promise<void> begun, go_on;
  std::shared_future<void> wait = go_on.get_future().share();
  int calls = 0;
  EngineRun run(kCpu, null_engine([&](WatchedModel::Call) {
                  if (++calls != 3) return;
                  begun.set_value();
                  wait.wait();
                }));
  const RequestId id = run.submit(counting_from(7, 1000)).value();
  begun.get_future().wait();
  std::future<void> closed = std::async(std::launch::async, [&] { run.close(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the planner cancels what is there
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.1);
  go_on.set_value();
  closed.wait();
  EXPECT_EQ(run.seen(id).ends.at(0).reason, EndReason::kCancelled);
}

}  // namespace
}  // namespace deepinfer
