// EngineMetrics: the counters, gauges and histograms of one engine, and their text for Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/metrics/engine_observer.h"
#include "engine/metrics/metric.h"

namespace deepinfer {

struct EngineStats;

class EngineMetrics final : public EngineObserver {
 public:
  EngineMetrics();

  void step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                 const StepTimes& times) override;
  void request_ended(RequestId id, const RequestSummary& summary, Time now) override;

  // Any thread may read them.
  Gauge waiting, running, prefilling;
  Gauge held_blocks, total_blocks;
  Counter steps, prefill_rows, decode_rows;
  Counter prompt_tokens, cached_tokens, answer_tokens;
  Counter tier_tokens;                   // of cached_tokens, from the tier below the pool
  static constexpr size_t kPlaces = 16;  // of drafts that are counted apart
  Counter draft_rounds, drafted, accepted, preemptions;
  std::array<Counter, kPlaces> accepted_at;             // by place in the draft
  Counter stopped, length, cancelled, expired, failed;  // ends by reason
  Counter plan_nanoseconds, run_nanoseconds;
  Counter attention_megaflops, megaflops;  // of steps, attention included
  Histogram step_seconds, queue_seconds, prefill_seconds, decode_seconds, first_token_seconds, inter_token_seconds,
      total_seconds;
  Histogram request_prompt, request_answer;  // tokens
  Histogram accepted_length;                 // tokens of a decode round, the one without draft included

 private:
  bool ended(RequestId id) const;

  // Planner thread: when each request had its last token, and who ended while plans with them were in flight.
  std::unordered_map<RequestId, Time> last_token_;
  std::deque<std::pair<int64_t, RequestId>> ended_;  // with the number of steps then
  int64_t seen_preemptions_ = 0;
};

// For Prometheus (exposition.h).  model: the value of the label model_name.  docs/observability.md lists the names:
// those of vLLM where they mean the same.
std::string prometheus_text(const EngineMetrics& metrics, std::string_view model);
// What an engine counts itself: its state, and the tier below the pool.
std::string prometheus_text(const EngineStats& stats, std::string_view model);

}  // namespace deepinfer
