// Host time of a whole step of the engine, through its threads: plan, batch, outcome and delivery, around a model that
// computes nothing.  engine_step_speed [--benchmark_filter=...]; arguments of a case: running sequences, context in
// tokens.
//
// cpu_us is the time of all threads together for a step, sampling included; wall_us the time from step to step;
// plan_us, run_us and deliver_us are the parts on the planner, the executor and the output thread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "bench/null_model.h"
#include "engine/engine.h"
#include "engine/metrics/engine_metrics.h"

namespace deepinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

double cpu_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

template <typename T>
T value_or_exit(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << result.status().to_string() << "\n";
  std::exit(1);
}

// What deliveries took.
class DeliveryTime final : public EngineObserver {
 public:
  void step_done(const StepPlan&, const StepOutcome&, const SchedulerStats&, const StepTimes&) override {}
  void request_ended(RequestId, const RequestSummary&, Time) override {}
  void delivered(int64_t, Time start, Time end) override { nanoseconds_.add((end - start).count()); }
  int64_t nanoseconds() const { return nanoseconds_.value(); }

 private:
  Counter nanoseconds_;
};

// Sequences that share their prompt, so that the pool is small, and decode for ever.
class RunningLoad {
 public:
  RunningLoad(int sequences, int64_t context, std::chrono::microseconds busy) {
    CpuOpsOptions cpu;
    cpu.threads.threads = 1;
    EngineOptions options;
    options.max_sequences = sequences;
    options.step_rows = 8192;
    options.decode_latency = std::chrono::hours(1);
    options.cache_bytes = int64_t{1} << 28;
    options.max_context = 1'000'000;
    options.make_model = [busy](const StepLimits& limits, Ops& ops) {
      return NullModel::create({.busy = busy}, limits, ops);
    };
    options.observers = {metrics_, deliveries_};
    engine_ = value_or_exit(Engine::open(options, value_or_exit(make_cpu_ops(cpu))));
    for (int i = 0; i < sequences; ++i) {
      EngineRequest request;
      for (int64_t at = 0; at < context; ++at) request.prompt.push_back(static_cast<int32_t>(at % 15));
      request.params.temperature = 0;
      value_or_exit(engine_->submit(std::move(request), [this](const RequestUpdate& update) {
        tokens_.fetch_add(static_cast<int64_t>(update.tokens.size()), std::memory_order_relaxed);
      }));
      while (i == 0 && tokens_.load() == 0) std::this_thread::yield();  // its prompt is in the cache
    }
    for (EngineStats now; now.scheduler.running < sequences || now.scheduler.prefilling > 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      now = engine_->stats();
    }
  }

  void wait_for_steps(int64_t steps) {
    const int64_t end = engine_->stats().steps + steps;
    while (engine_->stats().steps < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EngineStats stats() const { return engine_->stats(); }
  int64_t tokens() const { return tokens_.load(); }
  double delivering() const { return static_cast<double>(deliveries_->nanoseconds()) / 1e3; }

 private:
  std::shared_ptr<EngineMetrics> metrics_ = std::make_shared<EngineMetrics>();
  std::shared_ptr<DeliveryTime> deliveries_ = std::make_shared<DeliveryTime>();
  std::atomic<int64_t> tokens_{0};
  std::unique_ptr<Engine> engine_;
};

double microseconds(Time time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// An iteration is some steps; the figures are medians of iterations, because other work on the machine comes in waves.
void measure(benchmark::State& state, RunningLoad& load, int64_t steps, std::chrono::microseconds busy) {
  load.wait_for_steps(steps);
  std::vector<double> wall, cpu, plan, run, deliver, tokens;
  for (auto _ : state) {
    const EngineStats before = load.stats();
    const double cpu_before = cpu_microseconds(), delivering = load.delivering();
    const int64_t tokens_before = load.tokens();
    const auto start = Clock::now();
    load.wait_for_steps(steps);
    const double passed = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    const double cpu_passed = cpu_microseconds() - cpu_before;
    const EngineStats after = load.stats();
    const auto done = static_cast<double>(after.steps - before.steps);
    wall.push_back(passed / done);
    cpu.push_back(cpu_passed / done - static_cast<double>(busy.count()));
    plan.push_back(microseconds(after.planning - before.planning) / done);
    run.push_back(microseconds(after.executing - before.executing) / done);
    tokens.push_back(static_cast<double>(load.tokens() - tokens_before) / done);
    deliver.push_back((load.delivering() - delivering) / done);
    state.SetIterationTime(1e-6 * cpu.back());
  }
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  state.counters["tokens"] = median(tokens);
  state.counters["cpu_us"] = median(cpu);
  state.counters["wall_us"] = median(wall);
  state.counters["plan_us"] = median(plan);
  state.counters["run_us"] = median(run);
  state.counters["deliver_us"] = median(deliver);
}

// Back to back: what a step costs at the most a second.
void engine_step(benchmark::State& state) {
  const int sequences = static_cast<int>(state.range(0));
  RunningLoad load(sequences, state.range(1), {});
  measure(state, load, sequences >= 1024 ? 200 : 2000, {});
}
BENCHMARK(engine_step)
    ->ArgNames({"sequences", "context"})
    ->ArgsProduct({{64, 1024}, {100, 100'000}})
    ->Iterations(9)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// Around a forward pass of 0.4 ms, which is left out of cpu_us: threads go to sleep and are woken in every step.
void engine_step_with_sleep(benchmark::State& state) {
  constexpr std::chrono::microseconds kBusy{400};
  RunningLoad load(static_cast<int>(state.range(0)), 100, kBusy);
  measure(state, load, 500, kBusy);
}
BENCHMARK(engine_step_with_sleep)
    ->ArgNames({"sequences"})
    ->ArgsProduct({{1, 16, 64}})
    ->Iterations(9)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace deepinfer::bench

BENCHMARK_MAIN();
