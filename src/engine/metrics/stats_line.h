// StatsLine: every so many steps one line of statistics, with the names that DeepInfer 0.1.0 gives them.  What this
// engine does not measure is printed as "-".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/metrics/engine_observer.h"

namespace deepinfer {

class StatsLine final : public EngineObserver {
 public:
  // step_rows, sequences: the engine's limits, for percentages.  peak: floating-point operations a second that the
  // machine reaches, 0: not measured.  print gets whole lines, on the planner thread.
  struct Limits {
    int64_t step_rows = 1;
    int64_t sequences = 1;
    double peak = 0;
  };
  StatsLine(int64_t interval, const Limits& limits, std::function<void(std::string_view)> print);

  void step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                 const StepTimes& times) override;
  void request_ended(RequestId id, const RequestSummary& summary, Time now) override;

 private:
  static constexpr size_t kPositions = 16;  // of drafts that are counted apart

  // Since the last line, or since the start.
  struct Window {
    int64_t steps = 0, prefill_tokens = 0, answer_tokens = 0, rounds = 0, drafted = 0, accepted = 0;
    int64_t finished = 0, aborted = 0, input = 0, output = 0, cached = 0, first_tokens = 0;
    int64_t rows_times_keys = 0, most_keys = 0, fewest_keys = 0;
    double attention_work = 0, work = 0;  // floating-point operations
    Time prefill_time{0}, decode_time{0}, first_token_sum{0}, first_token_max{0};
    std::array<int64_t, kPositions> drafted_at{}, accepted_at{};
  };
  std::string line(const StepPlan& plan, const SchedulerStats& scheduler, Time now) const;

  int64_t interval_;
  Limits limits_;
  std::function<void(std::string_view)> print_;
  int64_t step_ = 0;
  bool opened_ = false;  // the first step opens the window
  Time start_{0}, window_start_{0};
  int64_t window_preemptions_ = 0;
  int64_t total_steps_ = 0;
  Window window_;
};

}  // namespace deepinfer
