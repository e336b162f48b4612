// RequestLog: every request that an engine accepts and every answer, as a file from which `deepinfer replay` repeats
// the run.  A line is written whole as soon as it is known, so a process that is killed leaves a log of all that had
// ended; only the last line can be torn.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/metrics/engine_observer.h"
#include "engine/request_log/logged_request.h"

namespace deepinfer {

class RequestLog final : public EngineObserver {
 public:
  // Never overwrites: kInvalidArgument when the file is there and not empty; kIoError.
  static Result<std::shared_ptr<RequestLog>> create(const std::filesystem::path& file);
  ~RequestLog() override;

  // The first line: after the engine was opened and before its first request.
  void begin(const RequestLogHeader& header);

  void step_done(const StepPlan&, const StepOutcome&, const SchedulerStats&, const StepTimes&) override {}
  void request_ended(RequestId, const RequestSummary&, Time) override {}
  void accepted(RequestId id, const EngineRequest& request, Time now) override;
  void updated(const RequestUpdate& update, Time now) override;

  // Ends the file; the error of any write before.
  Status close();

 private:
  RequestLog(std::string name, int file) : name_(std::move(name)), file_(file) {}
  void note(const RequestUpdate& update, Time now);
  void write(const std::string& line);

  std::string name_;
  std::mutex mutex_;
  int file_;
  Status failure_;
  std::unordered_map<RequestId, LoggedAnswer> running_;
};

// Of a log's records.
struct RequestLogContents {
  RequestLogHeader header;
  std::vector<LoggedRequest> requests;  // in the order of submission
  // The last line is not whole (the process was killed while it was written) and was left out.
  bool torn = false;
};

// Errors name the file, and the line where one is wrong: kNotFound, kIoError, kCorruptFile (no header, a line that is
// none of a log's, an end of a request that is not there), kUnsupported (another version), kResourceExhausted.
Result<RequestLogContents> read_request_log(const std::filesystem::path& file);
// The same of a text; `name` goes in front of errors.
Result<RequestLogContents> parse_request_log(std::string_view text, std::string_view name);

}  // namespace deepinfer
