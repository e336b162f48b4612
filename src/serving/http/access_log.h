// AccessLog: one line of JSON for each request, for HttpServerOptions::on_access.  Owned by the program; a thread of
// its own writes, so that no connection waits for a disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "serving/http/http_server.h"

namespace deepinfer::serving {

// {"time","id","peer","method","path","status","bytes","ms","end","trace"}; trace only where the request named one.
// Never bodies, queries or other fields: they may hold secrets.
std::string access_line(const HttpAccess& access);

class AccessLog {
 public:
  // Appends to the file at `path`, in folders that are made where there are none; "-" is the standard error.  kIoError
  // where it cannot be opened.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  // Writes what was recorded.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Any thread; does not wait: while 8192 lines wait for the disk the oldest go.
  void record(const HttpAccess& access);
  std::uint64_t lost() const;

 private:
  struct Writer;
  explicit AccessLog(std::unique_ptr<Writer> writer);
  std::unique_ptr<Writer> writer_;
};

}  // namespace deepinfer::serving
