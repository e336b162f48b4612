// What an engine did when, as trace events of chrome://tracing and Perfetto: the text of JSON objects with a comma and
// a line feed behind each.  Steps are spans of the planner and the executor, deliveries of the output thread, requests
// spans of their own.  Called by ChromeTrace and StepProfile.
#pragma once

#include <string>

#include "engine/metrics/engine_observer.h"

namespace deepinfer {

// The names of the threads; the first events of a trace.
std::string trace_thread_names();
std::string trace_step(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                       const StepTimes& times);
std::string trace_request(RequestId id, const RequestSummary& summary, Time now);
std::string trace_delivery(int64_t updates, Time start, Time end);
// The last one, without a comma.
std::string trace_end();

}  // namespace deepinfer
