// ChromeTrace: what an engine did when, as a file for chrome://tracing and Perfetto (JSON array of trace events).
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "engine/metrics/engine_observer.h"

namespace deepinfer {

class ChromeTrace final : public EngineObserver {
 public:
  static Result<std::shared_ptr<ChromeTrace>> create(const std::filesystem::path& file);
  ~ChromeTrace() override;

  void step_done(const StepPlan& plan, const StepOutcome& outcome, const SchedulerStats& scheduler,
                 const StepTimes& times) override;
  void request_ended(RequestId id, const RequestSummary& summary, Time now) override;
  void delivered(int64_t updates, Time start, Time end) override;

  // Ends the file; the error of any write before.  Without it (a crash) viewers still read what is there.
  Status close();

 private:
  ChromeTrace(std::string name, std::FILE* file) : name_(std::move(name)), file_(file) {}
  void write(const std::string& events);

  std::string name_;
  std::mutex mutex_;
  std::FILE* file_;
  bool failed_ = false;
};

}  // namespace deepinfer
