#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace deepinfer {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kNotFound: return "not found";
    case StatusCode::kCorruptFile: return "corrupt file";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kResourceExhausted: return "resource exhausted";
    case StatusCode::kCancelled: return "cancelled";
    case StatusCode::kDeviceFailure: return "device failure";
    case StatusCode::kIoError: return "input/output error";
    case StatusCode::kInternal: return "internal error";
  }
  return "unknown";
}

std::string Status::to_string() const {
  std::string text(deepinfer::to_string(code_));
  if (!message_.empty()) text.append(": ").append(message_);
  return text;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return {code_, std::string(context) + ": " + message_};
}

void check_failed(const char* condition, const char* file, int line, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\n", file, line, condition, static_cast<int>(message.size()),
               message.data());
  std::abort();
}

}  // namespace deepinfer
