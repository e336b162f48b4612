#include "exit_code.h"

#include <cstdio>

namespace deepinfer::cli {

ExitCode exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ExitCode::kOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kCorruptFile:
      return ExitCode::kInput;
    case StatusCode::kUnsupported:
    case StatusCode::kResourceExhausted:
    case StatusCode::kDeviceFailure:
    case StatusCode::kIoError:
      return ExitCode::kMachine;
    case StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    case StatusCode::kInternal:
      return ExitCode::kInternal;
  }
  return ExitCode::kInternal;
}

ExitCode report_error(const Status& status) {
  // One error is one line, whatever a file name or a piece of bad input holds.
  std::string line = "deepinfer: error: ";
  for (const char c : status.message()) {
    const auto byte = static_cast<unsigned char>(c);
    line.push_back(byte < 0x20 || byte == 0x7F ? ' ' : c);
  }
  line.push_back('\n');
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  return exit_code(status.code());
}

ExitCode report_usage_error(const std::string& message) {
  report_error(invalid_argument(message));
  return ExitCode::kUsage;
}

}  // namespace deepinfer::cli
