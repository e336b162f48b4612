// Host time of the scheduler in a step: next_plan and advance, beside an executor that does nothing.
// scheduler_speed [--benchmark_filter=...]; arguments of a case: running sequences, context in tokens, drafts.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <vector>

#include "scheduling/scheduler.h"

namespace deepinfer {
namespace {

using Clock = std::chrono::steady_clock;

class AnyBoundary final : public SnapshotRule {
 public:
  bool usable(const SnapshotInfo&, int64_t) const override { return true; }
};

// Sequences that share their prompt, so that the pool is small, and decode for ever.  Of d drafts half are accepted.
class RunningLoad {
 public:
  RunningLoad(int sequences, int64_t context, int drafts) : context_(context), drafts_(drafts) {
    SchedulerConfig config;
    config.cache = {.blocks = context / 128 + int64_t{120} * sequences + 100,
                    .tokens_per_block = 128,
                    .full_snapshot_blocks = 10,
                    .early_snapshot_blocks = 5,
                    .early_interval = 4096,
                    .state_slots = sequences + 2};
    config.max_context = 200'000;
    config.max_sequences = sequences + 1;
    config.step_rows = (sequences + 1) * (1 + drafts) + 8192;
    config.decode_latency = Time(int64_t{1} << 50);
    auto scheduler = Scheduler::create(config, rule_);
    if (!scheduler.ok()) {
      std::cerr << scheduler.status().to_string() << "\n";
      std::exit(1);
    }
    scheduler_ = std::move(*scheduler);
    submit(int64_t{1} << 40);
    while (scheduler_->stats().answer_tokens == 0) step();
    for (int i = 1; i < sequences; ++i) submit(int64_t{1} << 40);
    while (scheduler_->stats().running < sequences || scheduler_->stats().prefilling > 0) step();
  }

  RequestId submit(int64_t max_tokens) {
    Request request;
    request.id = ++last_id_;
    request.max_tokens = max_tokens;
    request.drafts = drafts_;
    request.salt = 1;
    for (int64_t i = 0; i < context_; ++i) request.prompt.push_back(static_cast<int32_t>(i % 5000));
    if (!scheduler_->submit(std::move(request)).ok()) std::exit(1);
    return last_id_;
  }

  void step() {
    StepPlan& plan = plans_[next_];
    const auto start = Clock::now();
    const bool made = scheduler_->next_plan(Time{0}, plan);
    const auto planned = Clock::now();
    planning_ += planned - start;
    if (made) {
      in_flight_.push_back(next_);
      next_ = (next_ + 1) % 3;
    }
    if (in_flight_.size() < 2 && made) return;
    run(plans_[in_flight_.front()]);
    in_flight_.pop_front();
    const auto ran = Clock::now();
    scheduler_->advance(result_);
    advancing_ += Clock::now() - ran;
    scheduler_->take_ended(ended_);
  }

  Clock::duration planning() const { return planning_; }
  Clock::duration advancing() const { return advancing_; }
  Scheduler& scheduler() { return *scheduler_; }

 private:
  void run(const StepPlan& plan) {
    result_.clear();
    result_.plan = plan.number;
    result_.duration = Time(10'000'000);
    const auto add = [&](RequestId request, int64_t tokens) {
      SequenceResult of;
      of.request = request;
      of.first_token = static_cast<int64_t>(result_.tokens.size());
      of.tokens = tokens;
      for (int64_t i = 0; i < tokens; ++i) result_.tokens.push_back(7);
      result_.sequences.push_back(of);
    };
    for (const PrefillChunk& chunk : plan.prefills) add(chunk.request, chunk.last ? 1 : 0);
    for (const DecodeRows& rows : plan.decodes) add(rows.request, 1 + rows.drafts / 2);
  }

  int64_t context_;
  int drafts_;
  AnyBoundary rule_;
  std::unique_ptr<Scheduler> scheduler_;
  StepPlan plans_[3];
  int next_ = 0;
  std::deque<int> in_flight_;
  StepResult result_;
  std::vector<EndedRequest> ended_;
  RequestId last_id_ = 0;
  Clock::duration planning_{0}, advancing_{0};
};

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double median_microseconds(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return 1e6 * seconds[seconds.size() / 2];
}

// The times shown are means, of which a loaded machine makes much; the counters are medians.
void measure_steps(benchmark::State& state, RunningLoad& load, bool with_arrival) {
  for (int i = 0; i < 200; ++i) load.step();
  std::vector<double> planning, advancing, both;
  for (auto _ : state) {
    if (with_arrival) load.submit(1);
    const auto planned = load.planning(), advanced = load.advancing();
    load.step();
    planning.push_back(seconds(load.planning() - planned));
    advancing.push_back(seconds(load.advancing() - advanced));
    both.push_back(planning.back() + advancing.back());
    state.SetIterationTime(both.back());
  }
  state.counters["median_us"] = median_microseconds(both);
  state.counters["plan_us"] = median_microseconds(planning);
  state.counters["advance_us"] = median_microseconds(advancing);
}

void decode_step(benchmark::State& state) {
  RunningLoad load(static_cast<int>(state.range(0)), state.range(1), static_cast<int>(state.range(2)));
  measure_steps(state, load, false);
}
BENCHMARK(decode_step)
    ->ArgNames({"sequences", "context", "drafts"})
    ->ArgsProduct({{64, 1024}, {100, 100'000}, {0, 5}})
    ->Iterations(3000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// A step in which one request comes, with a known prompt, and one ends.
void step_with_arrival_and_end(benchmark::State& state) {
  RunningLoad load(static_cast<int>(state.range(0)), state.range(1), 0);
  measure_steps(state, load, true);
}
BENCHMARK(step_with_arrival_and_end)
    ->ArgNames({"sequences", "context"})
    ->ArgsProduct({{64, 1024}, {100, 100'000}})
    ->Iterations(500)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// What a rest costs: a part of 1,024 blocks of the check of a pool full of prefixes, of 64 blocks and a snapshot each.
void check_part(benchmark::State& state) {
  const AnyBoundary rule;
  SchedulerConfig config;
  config.cache = {.blocks = state.range(0), .full_snapshot_blocks = 10, .state_slots = 16};
  config.max_context = 200'000;
  auto scheduler = Scheduler::create(config, rule);
  if (!scheduler.ok()) return state.SkipWithError(scheduler.status().to_string().c_str());
  std::vector<int32_t> tokens(64 * 128);
  for (int32_t i = 0; i < state.range(0) / 74; ++i) {
    std::fill(tokens.begin(), tokens.end(), i);
    (*scheduler)->adopt_prefix(1, tokens, {.position = std::ssize(tokens)}, [](auto, auto) {});
  }
  std::vector<double> parts;
  for (auto _ : state) {
    const auto start = Clock::now();
    (*scheduler)->check_part(1024);
    parts.push_back(seconds(Clock::now() - start));
    state.SetIterationTime(parts.back());
  }
  std::sort(parts.begin(), parts.end());
  state.counters["median_us"] = 1e6 * parts[parts.size() / 2];
  state.counters["p99_us"] = 1e6 * parts[parts.size() * 99 / 100];
  const auto start = Clock::now();
  (*scheduler)->check_integrity();
  state.counters["whole_us"] = 1e6 * seconds(Clock::now() - start);
}
BENCHMARK(check_part)
    ->ArgName("blocks")
    ->Arg(4096)
    ->Arg(65536)
    ->Arg(524288)
    ->Iterations(2000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace deepinfer

BENCHMARK_MAIN();
