#include "engine/metrics/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/metrics/trace_events.h"

namespace deepinfer {

Result<StepProfile::Recording> StepProfile::record(int64_t steps, std::chrono::milliseconds time,
                                                   const std::function<bool()>& give_up) {
  constexpr std::chrono::milliseconds kPoll{100};
  if (steps < 1 || steps > kMostSteps)
    return invalid_argument(fmt::format("steps is {}; allowed: 1 to {}", steps, kMostSteps));
  const auto deadline = std::chrono::steady_clock::now() + time;
  std::unique_lock lock(mutex_);
  if (busy_) return Status(StatusCode::kResourceExhausted, "a profile is being recorded; allowed: one at a time");
  busy_ = true;
  left_ = steps;
  events_ = "[\n" + trace_thread_names();
  recording_ = true;
  bool given_up = false;
  while (left_ > 0 && !given_up && std::chrono::steady_clock::now() < deadline) {
    done_.wait_until(lock, std::min(deadline, std::chrono::steady_clock::now() + kPoll), [&] { return left_ == 0; });
    lock.unlock();
    given_up = give_up();
    lock.lock();
  }
  recording_ = false;
  busy_ = false;
  if (left_ > 0 && given_up) return Status(StatusCode::kCancelled, "the recording was given up");
  return Recording{steps - left_, std::exchange(events_, {}) + trace_end() + "]\n"};
}

void StepProfile::step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                            const StepTimes& times) {
  if (!recording_.load(std::memory_order_relaxed)) return;
  const std::string events = trace_step(plan, outcome, scheduler, times);
  {
    const std::lock_guard lock(mutex_);
    if (!recording_ || left_ == 0) return;
    events_ += events;
    if (--left_ > 0) return;
  }
  done_.notify_all();
}

void StepProfile::request_ended(RequestId id, const RequestSummary& summary, Time now) {
  if (!recording_.load(std::memory_order_relaxed)) return;
  const std::string events = trace_request(id, summary, now);
  const std::lock_guard lock(mutex_);
  if (recording_ && left_ > 0) events_ += events;
}

void StepProfile::delivered(int64_t updates, Time start, Time end) {
  if (!recording_.load(std::memory_order_relaxed)) return;
  const std::string events = trace_delivery(updates, start, end);
  const std::lock_guard lock(mutex_);
  if (recording_ && left_ > 0) events_ += events;
}

}  // namespace deepinfer
