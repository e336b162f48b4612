// EngineObserver: what an engine tells those who watch it: metrics, the statistics line, a trace.  Observers see
// numbers that the engine has anyway; without observers nothing is computed for them.  What an observer throws costs it
// that call; accepted() that throws refuses the request.
#pragma once

#include <chrono>
#include <cstdint>

#include "scheduling/request.h"

namespace deepinfer {

struct EngineRequest;
struct RequestSummary;
struct RequestUpdate;
struct SchedulerStats;
struct StepOutcome;
struct StepPlan;

// Times of a step since the engine's start: planned, run, and taken back by the planner.
struct StepTimes {
  Time plan_start{0}, plan_end{0};
  Time run_start{0}, run_end{0};
};

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  // Planner thread, in the order of the steps.  The tokens of the outcome may be gone; counts are there.
  virtual void step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                         const StepTimes& times) = 0;
  // Planner thread; once for each accepted request.
  virtual void request_ended(RequestId id, const RequestSummary& summary, Time now) = 0;
  // The thread that submits, with every default resolved, before anything else of the request.
  virtual void accepted(RequestId id, const EngineRequest& request, Time now) { (void)id, (void)request, (void)now; }
  // Output thread: what the request's callback gets next.
  virtual void updated(const RequestUpdate& update, Time now) { (void)update, (void)now; }
  // Output thread: callbacks of some updates ran.
  virtual void delivered(int64_t updates, Time start, Time end) { (void)updates, (void)start, (void)end; }
};

}  // namespace deepinfer
