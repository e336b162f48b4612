#include "engine/metrics/chrome_trace.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "engine/metrics/trace_events.h"

namespace deepinfer {

Result<std::shared_ptr<ChromeTrace>> ChromeTrace::create(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return io_error(fmt::format("{}: cannot be written: {}", path.string(), std::generic_category().message(errno)));
  std::shared_ptr<ChromeTrace> trace(new ChromeTrace(path.string(), file));
  trace->write("[\n" + trace_thread_names());
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
  write(trace_end() + "]\n");
  const std::lock_guard lock(mutex_);
  std::FILE* file = std::exchange(file_, nullptr);
  if (file == nullptr) return {};
  if (std::fclose(file) != 0 || failed_) return io_error(fmt::format("{}: the trace could not be written", name_));
  return {};
}

void ChromeTrace::step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                            const StepTimes& times) {
  write(trace_step(plan, outcome, scheduler, times));
}

void ChromeTrace::request_ended(RequestId id, const RequestSummary& summary, Time now) {
  write(trace_request(id, summary, now));
}

void ChromeTrace::delivered(int64_t updates, Time start, Time end) {
  write(trace_delivery(updates, start, end));
}

}  // namespace deepinfer
