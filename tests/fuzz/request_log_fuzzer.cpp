// Hostile request logs: an error or a log, and what was read writes and reads the same.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "engine/request_log/log_line.h"
#include "engine/request_log/request_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  const auto log = parse_request_log({reinterpret_cast<const char*>(data), size}, "log");
  if (!log.ok()) {
    DI_CHECK(!log.status().message().empty(), "an error says what is wrong");
    return 0;
  }
  for (const LoggedRequest& request : log->requests) {
    const std::string line = request_line(request.id, request.at, request.request);
    const auto again = parse_log_line(std::string_view(line).substr(0, line.size() - 1));
    DI_CHECK(again.ok(), again.status().message());
    const auto& read = std::get<LoggedRequest>(*again);
    DI_CHECK(request_line(read.id, read.at, read.request) == line, "a line comes back");
  }
  return 0;
}
