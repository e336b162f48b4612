#include "scheduling/step_budget.h"

#include <algorithm>
#include <limits>

namespace deepinfer {

void StepBudget::History::add(const Step& step) {
  steps_[static_cast<size_t>(next_)] = step;
  next_ = (next_ + 1) % kRemembered;
  count_ = std::min(count_ + 1, kRemembered);
}

StepBudget::StepBudget(Time decode_latency, int64_t least_chunk)
    : bound_seconds_(std::chrono::duration<double>(decode_latency).count() * kUsed), least_chunk_(least_chunk) {}

void StepBudget::observe(int64_t decode_rows, int64_t prefill_rows, Time duration) {
  const Step step{static_cast<double>(decode_rows), static_cast<double>(prefill_rows),
                  std::chrono::duration<double>(duration).count()};
  if (decode_rows > 0 && prefill_rows == 0) decode_only_.add(step);
  if (prefill_rows >= least_chunk_) with_prefill_.add(step);
}

double StepBudget::base_seconds(double decode_rows) const {
  if (decode_rows == 0 || decode_only_.empty()) return 0;
  double base = std::numeric_limits<double>::max();
  const auto lower = [&](const Step& step) {
    if (step.decode_rows > 0) base = std::min(base, step.seconds * std::min(1.0, decode_rows / step.decode_rows));
  };
  for (const Step& step : decode_only_) lower(step);
  for (const Step& step : with_prefill_)
    if (step.decode_rows >= decode_rows) lower(step);
  return base;
}

int64_t StepBudget::prefill_rows(int64_t decode_rows) const {
  if (decode_rows == 0) return std::numeric_limits<int64_t>::max();
  if (with_prefill_.empty()) return least_chunk_;
  double row_seconds = 0, most_rows = 0;
  for (const Step& step : with_prefill_) {
    const double beyond_base = std::max(0.0, step.seconds - base_seconds(step.decode_rows));
    row_seconds = std::max(row_seconds, beyond_base / step.prefill_rows);
    most_rows = std::max(most_rows, step.prefill_rows);
  }
  const double left = bound_seconds_ - base_seconds(static_cast<double>(decode_rows));
  double rows = left <= 0 ? 0 : 2 * most_rows;
  if (left > 0 && row_seconds > 0) rows = std::min(rows, left / row_seconds);
  return std::max(least_chunk_, static_cast<int64_t>(rows));
}

}  // namespace deepinfer
