// AccessLog: one line of JSON for each request, for HttpServerOptions::on_access, and for what happens to the server.
// Owned by the program; a thread of its own writes, so that no connection waits for a disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/http/http_server.h"

namespace deepinfer::serving {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
inline constexpr std::string_view kLogLevels = "debug, info, warning, error";

std::string_view to_string(LogLevel level);
std::optional<LogLevel> log_level(std::string_view name);

// kError: a status of 500 and more but 503; kWarning: 503, and answers that did not arrive whole; kDebug: what watches
// the server (/health, /metrics) and the page, where all went well; kInfo: the rest.
LogLevel level_of(const HttpAccess& access);
// {"time","level","id","peer","method","path","status","bytes","ms","end","trace"}, and what the route has described;
// trace only where the request named one.  Never bodies, queries or other fields: they may hold secrets.  Whatever a
// client sends, it is one line: control characters and bytes that are not UTF-8 are escaped or replaced.
std::string access_line(const HttpAccess& access);
// {"time","level","event"} and `members`, as HttpExchange::describe() takes them.
std::string event_line(LogLevel level, std::string_view event, std::string_view members);

class AccessLog {
 public:
  // Appends to the file at `path`, in folders that are made where there are none; "-" is the standard error.  kIoError
  // where it cannot be opened.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  // Writes what was recorded.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Lines below this level are not written; kInfo at first.
  void set_level(LogLevel level) { level_ = level; }
  LogLevel level() const { return level_; }

  // Any thread; does not wait: while 8192 lines wait for the disk the oldest go.
  void record(const HttpAccess& access);
  void event(LogLevel level, std::string_view event, std::string_view members = {});
  std::uint64_t lost() const;

 private:
  struct Writer;
  explicit AccessLog(std::unique_ptr<Writer> writer);
  std::unique_ptr<Writer> writer_;
  std::atomic<LogLevel> level_{LogLevel::kInfo};
};

}  // namespace deepinfer::serving
