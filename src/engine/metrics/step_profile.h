// StepProfile: a trace of the next steps of an engine that runs, in memory.  One of the engine's observers from the
// start; costs an atomic read a step while nobody asks.  Asked by the server's admin routes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "base/status.h"
#include "engine/metrics/engine_observer.h"

namespace deepinfer {

class StepProfile final : public EngineObserver {
 public:
  static constexpr int64_t kMostSteps = 1000;

  struct Recording {
    int64_t steps = 0;  // fewer than asked for: the time was over
    std::string trace;  // JSON array of trace events, as ChromeTrace writes it
  };
  // Waits until the engine has made so many more steps or the time is over; `give_up` is asked every tenth of a second.
  // kInvalidArgument: steps outside [1, kMostSteps]; kResourceExhausted: another recording is under way; kCancelled:
  // given up.
  Result<Recording> record(int64_t steps, std::chrono::milliseconds time, const std::function<bool()>& give_up);

  void step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                 const StepTimes& times) override;
  void request_ended(RequestId id, const RequestSummary& summary, Time now) override;
  void delivered(int64_t updates, Time start, Time end) override;

 private:
  std::atomic<bool> recording_{false};
  std::mutex mutex_;  // of all below
  std::condition_variable done_;
  bool busy_ = false;
  int64_t left_ = 0;
  std::string events_;
};

}  // namespace deepinfer
