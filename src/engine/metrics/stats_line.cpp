#include "engine/metrics/stats_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/engine.h"
#include "engine/step_executor.h"

namespace deepinfer {
namespace {

double seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double rate(int64_t count, Time time) {
  return time > Time{0} ? static_cast<double>(count) / seconds(time) : 0;
}

}  // namespace

StatsLine::StatsLine(int64_t interval, const Limits& limits, std::function<void(std::string_view)> print)
    : interval_(interval), limits_(limits), print_(std::move(print)) {}

void StatsLine::step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                          const StepTimes& times) {
  ++step_;
  if (!opened_) {
    opened_ = true;
    start_ = window_start_ = times.run_start;
    window_preemptions_ = scheduler.preemptions;
  }
  Window& w = window_;
  ++w.steps;
  w.prefill_tokens += plan.prefill_rows;
  (plan.prefill_rows > 0 ? w.prefill_time : w.decode_time) += times.run_end - times.run_start;
  const StepShape& shape = outcome.shape;
  if (shape.rows > 0) {
    w.rows_times_keys += shape.rows_times_keys;
    w.most_keys = std::max(w.most_keys, shape.most_keys);
    w.fewest_keys = w.fewest_keys == 0 ? shape.fewest_keys : std::min(w.fewest_keys, shape.fewest_keys);
  }
  w.attention_work += shape.work.attention;
  w.work += shape.work.total;
  for (size_t i = 0; i < outcome.details.size(); ++i) {
    const StepOutcome::Detail& detail = outcome.details[i];
    w.answer_tokens += outcome.result.sequences[i].tokens;
    if (!detail.decoded) continue;
    ++w.rounds;
    w.drafted += detail.drafted;
    w.accepted += detail.accepted;
    for (size_t at = 0; at < std::min(kPositions, static_cast<size_t>(detail.drafted)); ++at) {
      ++w.drafted_at[at];
      w.accepted_at[at] += static_cast<size_t>(detail.accepted) > at ? 1 : 0;
    }
  }
  if (step_ % interval_ != 0) return;
  total_steps_ += w.steps;
  print_(line(plan, scheduler, times.run_end));
  window_ = {};
  window_start_ = times.run_end;
  window_preemptions_ = scheduler.preemptions;
}

void StatsLine::request_ended(RequestId id, const RequestSummary& summary, Time now) {
  (void)id, (void)now;
  Window& w = window_;
  const bool whole = summary.reason == EndReason::kStop || summary.reason == EndReason::kLength;
  ++(whole ? w.finished : w.aborted);
  w.input += summary.prompt_tokens;
  w.output += summary.answer_tokens;
  w.cached += summary.cached_tokens;
  if (summary.first_token == Time{0}) return;
  ++w.first_tokens;
  w.first_token_sum += summary.first_token;
  w.first_token_max = std::max(w.first_token_max, summary.first_token);
}

std::string StatsLine::line(const StepPlan& plan, const SchedulerStats& scheduler, Time now) const {
  const Window& w = window_;
  const Time passed = now - window_start_;
  const int64_t rows = plan.prefill_rows + plan.decode_rows, ended = w.finished + w.aborted;
  std::string positions;
  for (size_t at = 0; at < kPositions && w.drafted_at[at] > 0; ++at)
    positions += fmt::format("{}{:.2f}", at == 0 ? "" : " ", share(w.accepted_at[at], w.drafted_at[at]));
  const double busy = seconds(w.prefill_time) + seconds(w.decode_time);
  std::string text =
      fmt::format("RANK 0, step {}, [stats] (is_prompt {}, cur_SPS {:.1f}, avg_SPS {:.1f}, ", step_,
                  plan.prefill_rows > 0 ? 1 : 0, rate(w.steps, passed), rate(total_steps_, now - start_));
  text += fmt::format("cur_TPS {:.1f}, prompt_TPS {:.1f}, completion_TPS {:.1f}, ",
                      rate(w.prefill_tokens + w.answer_tokens, passed), rate(w.prefill_tokens, passed),
                      rate(w.answer_tokens, passed));
  text += fmt::format("avg_nextn_accept_rate {:.3f}, nextn_accept_rate [{}], verified_tokens {}, accepted_tokens {}, ",
                      share(w.accepted, w.drafted), positions, w.drafted, w.accepted);
  text += fmt::format("avg_verified_len {:.2f}, avg_confidence_error -, moe_lb -, running {}, pending {}, chunked {}, ",
                      share(w.drafted, w.rounds), scheduler.running, scheduler.waiting, scheduler.prefilling);
  text += fmt::format("num_batched_tokens {}[{:.1f}%], KV_cache_usage {:.1f}%, state_cache_usage {:.1f}%, ", rows,
                      100 * share(rows, limits_.step_rows), 100 * share(scheduler.held_blocks, scheduler.total_blocks),
                      100 * share(scheduler.running, limits_.sequences));
  text += fmt::format("prefill_time {:.1f}%, decode_time {:.1f}%, prefill_caching_rate {:.3f}, ",
                      busy > 0 ? 100 * seconds(w.prefill_time) / busy : 0.0,
                      busy > 0 ? 100 * seconds(w.decode_time) / busy : 0.0, share(w.cached, w.input));
  text += fmt::format("TTFT (max {:.4f}, mean {:.4f}), avg_length (input {:.1f}, output {:.1f}), ",
                      seconds(w.first_token_max),
                      w.first_tokens > 0 ? seconds(w.first_token_sum) / static_cast<double>(w.first_tokens) : 0.0,
                      share(w.input, ended), share(w.output, ended));
  text += fmt::format("finished {}, preempted {}, aborted {}, sum_seqlen_qxk {}, max_seqlen_k {}, min_seqlen_k {}, ",
                      w.finished, scheduler.preemptions - window_preemptions_, w.aborted, w.rows_times_keys,
                      w.most_keys, w.fewest_keys);
  text += fmt::format("attn_TFLOPs {:.4g}, ", busy > 0 ? w.attention_work / busy / 1e12 : 0.0);
  if (limits_.peak == 0) return text + "MFU -)\n";
  return text + fmt::format("MFU {:.2f}%)\n", busy > 0 ? 100 * w.work / busy / limits_.peak : 0.0);
}

}  // namespace deepinfer
