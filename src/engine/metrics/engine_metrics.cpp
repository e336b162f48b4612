#include "engine/metrics/engine_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/engine.h"
#include "engine/step_executor.h"

namespace deepinfer {
namespace {

constexpr std::array kSteps = {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0};
constexpr std::array kGaps = {0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03,
                              0.05,   0.075, 0.1,   0.15,  0.2,   0.3,    0.5,  1.0,   2.0,  5.0};
constexpr std::array kWaits = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,  0.2,   0.5,   1.0,  2.0,
                               5.0,   10.0,  20.0,  50.0, 100., 200., 500., 1000., 2000., 5000.};
constexpr std::array kTokens = {1.,    2.,    5.,  10., 20., 50., 100., 200., 500., 1000.,
                                2000., 5000., 1e4, 2e4, 5e4, 1e5, 2e5,  5e5,  1e6};
constexpr std::array kLengths = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0};

constexpr int64_t kMostPlansInFlight = 4;

double seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

EngineMetrics::EngineMetrics()
    : step_seconds(kSteps),
      queue_seconds(kWaits),
      prefill_seconds(kWaits),
      decode_seconds(kWaits),
      first_token_seconds(kWaits),
      inter_token_seconds(kGaps),
      total_seconds(kWaits),
      request_prompt(kTokens),
      request_answer(kTokens),
      accepted_length(kLengths) {}

bool EngineMetrics::ended(RequestId id) const {
  return std::any_of(ended_.begin(), ended_.end(), [id](const auto& entry) { return entry.second == id; });
}

void EngineMetrics::step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                              const StepTimes& times) {
  waiting.set(scheduler.waiting);
  running.set(scheduler.running);
  prefilling.set(scheduler.prefilling);
  held_blocks.set(scheduler.held_blocks);
  total_blocks.set(scheduler.total_blocks);
  preemptions.add(scheduler.preemptions - seen_preemptions_);
  seen_preemptions_ = scheduler.preemptions;
  steps.add(1);
  while (!ended_.empty() && ended_.front().first + kMostPlansInFlight < steps.value()) ended_.pop_front();
  prefill_rows.add(plan.prefill_rows);
  plan_nanoseconds.add((times.plan_end - times.plan_start).count());
  run_nanoseconds.add((times.run_end - times.run_start).count());
  attention_megaflops.add(std::llround(outcome.shape.work.attention / 1e6));
  megaflops.add(std::llround(outcome.shape.work.total / 1e6));
  step_seconds.observe(seconds(times.run_end - times.run_start));
  for (size_t i = 0; i < outcome.details.size(); ++i) {
    const StepOutcome::Detail& detail = outcome.details[i];
    const SequenceResult& result = outcome.result.sequences[i];
    drafted.add(detail.drafted);
    accepted.add(detail.accepted);
    draft_rounds.add(detail.drafted > 0);
    for (size_t place = 0; place < std::min(kPlaces, static_cast<size_t>(detail.accepted)); ++place)
      accepted_at[place].add(1);
    if (detail.decoded) {
      decode_rows.add(1 + detail.drafted);
      accepted_length.observe(static_cast<double>(result.tokens));
    }
    if (result.tokens == 0) continue;
    answer_tokens.add(result.tokens);
    const auto last = last_token_.find(result.request);
    if (last != last_token_.end()) {
      const double gap = seconds(times.run_end - last->second);
      inter_token_seconds.observe(gap / static_cast<double>(result.tokens), result.tokens);
      last->second = times.run_end;
    } else if (!ended(result.request)) {
      last_token_.emplace(result.request, times.run_end);
    }
  }
}

void EngineMetrics::request_ended(RequestId id, const RequestSummary& summary, Time now) {
  (void)now;
  last_token_.erase(id);
  ended_.emplace_back(steps.value(), id);
  prompt_tokens.add(summary.prompt_tokens);
  cached_tokens.add(summary.cached_tokens);
  tier_tokens.add(summary.tier_tokens);
  total_seconds.observe(seconds(summary.total));
  request_prompt.observe(static_cast<double>(summary.prompt_tokens));
  request_answer.observe(static_cast<double>(summary.answer_tokens));
  if (summary.first_token > Time{0}) {
    queue_seconds.observe(seconds(summary.queued));
    first_token_seconds.observe(seconds(summary.first_token));
    prefill_seconds.observe(seconds(summary.first_token - summary.queued));
    decode_seconds.observe(seconds(summary.total - summary.first_token));
  }
  switch (summary.reason) {
    case EndReason::kStop:
      return stopped.add(1);
    case EndReason::kLength:
      return length.add(1);
    case EndReason::kCancelled:
      return cancelled.add(1);
    case EndReason::kDeadline:
      return expired.add(1);
    case EndReason::kError:
      return failed.add(1);
  }
}

}  // namespace deepinfer
