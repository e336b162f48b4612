#include "engine/metrics/chrome_trace.h"

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

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

Result<std::shared_ptr<ChromeTrace>> ChromeTrace::create(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return io_error(fmt::format("{}: cannot be written: {}", path.string(), std::generic_category().message(errno)));
  std::shared_ptr<ChromeTrace> trace(new ChromeTrace(path.string(), file));
  std::string head = "[\n";
  for (int thread = 1; thread <= 3; ++thread)
    head += fmt::format(R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}},)"
                        "\n",
                        thread, kThreads[thread - 1]);
  trace->write(head);
  return trace;
}

ChromeTrace::~ChromeTrace() {
  if (file_ != nullptr) std::fclose(file_);
}

void ChromeTrace::write(const std::string& events) {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr || failed_) return;
  failed_ = std::fwrite(events.data(), 1, events.size(), file_) != events.size();
}

Status ChromeTrace::close() {
  write(R"({"name":"end","ph":"i","pid":1,"tid":1,"ts":0,"s":"g"}])"
        "\n");
  const std::lock_guard lock(mutex_);
  std::FILE* file = std::exchange(file_, nullptr);
  if (file == nullptr) return {};
  if (std::fclose(file) != 0 || failed_) return io_error(fmt::format("{}: the trace could not be written", name_));
  return {};
}

void ChromeTrace::step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                            const StepTimes& times) {
  int64_t tokens = 0;
  for (const SequenceResult& result : outcome.result.sequences) tokens += result.tokens;
  const std::string arguments = fmt::format(
      R"("step":{},"prefills":{},"prefill_rows":{},"decodes":{},"tokens":{},"running":{},"waiting":{})", plan.number,
      plan.prefills.size(), plan.prefill_rows, plan.decodes.size(), tokens, scheduler.running, scheduler.waiting);
  const std::string name = fmt::format("step {}", plan.number);
  write(span(name, 1, times.plan_start, times.plan_end, arguments) +
        span(name, 2, times.run_start, times.run_end, arguments));
}

void ChromeTrace::request_ended(RequestId id, const RequestSummary& summary, Time now) {
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
  write(spans);
}

void ChromeTrace::delivered(int64_t updates, Time start, Time end) {
  write(span("updates", 3, start, end, fmt::format(R"("updates":{})", updates)));
}

}  // namespace deepinfer
