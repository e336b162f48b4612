#include "engine/metrics/trace_events.h"

#include <fmt/format.h>

#include <string_view>

#include "engine/engine.h"
#include "engine/step_executor.h"

namespace deepinfer {
namespace {

constexpr const char* kThreads[] = {"plan", "execute", "deliver"};

double microseconds(Time time) {
  return static_cast<double>(time.count()) / 1e3;
}

std::string span(std::string_view name, int thread, Time start, Time end, std::string_view arguments) {
  return fmt::format(R"({{"name":"{}","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)"
                     "\n",
                     name, thread, microseconds(start), microseconds(end - start), arguments);
}

// Both ends of an asynchronous span: spans of one id lie under each other.
std::string request_span(std::string_view name, RequestId id, Time start, Time end, std::string_view arguments) {
  return fmt::format(
      R"({{"name":"{0}","cat":"request","ph":"b","id":{1},"pid":1,"tid":4,"ts":{2:.3f},"args":{{{4}}}}},)"
      "\n"
      R"({{"name":"{0}","cat":"request","ph":"e","id":{1},"pid":1,"tid":4,"ts":{3:.3f}}},)"
      "\n",
      name, id, microseconds(start), microseconds(end), arguments);
}

}  // namespace

std::string trace_thread_names() {
  std::string names;
  for (int thread = 1; thread <= 3; ++thread)
    names += fmt::format(R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}},)"
                         "\n",
                         thread, kThreads[thread - 1]);
  return names;
}

std::string trace_step(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                       const StepTimes& times) {
  int64_t tokens = 0;
  for (const SequenceResult& result : outcome.result.sequences) tokens += result.tokens;
  const std::string arguments = fmt::format(
      R"("step":{},"prefills":{},"prefill_rows":{},"decodes":{},"tokens":{},"running":{},"waiting":{})", plan.number,
      plan.prefills.size(), plan.prefill_rows, plan.decodes.size(), tokens, scheduler.running, scheduler.waiting);
  const std::string name = fmt::format("step {}", plan.number);
  return span(name, 1, times.plan_start, times.plan_end, arguments) +
         span(name, 2, times.run_start, times.run_end, arguments);
}

std::string trace_request(RequestId id, const RequestSummary& summary, Time now) {
  const Time submitted = now - summary.total;
  std::string spans =
      request_span("request", id, submitted, now,
                   fmt::format(R"("prompt_tokens":{},"cached_tokens":{},"answer_tokens":{},"drafted":{},"accepted":{})",
                               summary.prompt_tokens, summary.cached_tokens, summary.answer_tokens, summary.drafted,
                               summary.accepted));
  if (summary.first_token > Time{0}) {
    spans += request_span("queued", id, submitted, submitted + summary.queued, "");
    spans += request_span("prompt", id, submitted + summary.queued, submitted + summary.first_token, "");
    spans += request_span("answer", id, submitted + summary.first_token, now, "");
  }
  return spans;
}

std::string trace_delivery(int64_t updates, Time start, Time end) {
  return span("updates", 3, start, end, fmt::format(R"("updates":{})", updates));
}

std::string trace_end() {
  return R"({"name":"end","ph":"i","pid":1,"tid":1,"ts":0,"s":"g"})";
}

}  // namespace deepinfer
