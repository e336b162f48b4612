#include "engine/request_log/request_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/caught_exception.h"
#include "engine/request_log/log_line.h"

namespace deepinfer {
namespace {

Status failure(const std::string& name) {
  return io_error(fmt::format("{}: cannot be written: {}", name, std::generic_category().message(errno)));
}

}  // namespace

Result<std::shared_ptr<RequestLog>> RequestLog::create(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return failure(path.string());
  std::shared_ptr<RequestLog> log(new RequestLog(path.string(), file));
  struct stat status {};
  if (::fstat(file, &status) != 0) return failure(path.string());
  if (S_ISREG(status.st_mode) && status.st_size > 0)
    return invalid_argument(fmt::format("{}: is there already; a request log needs a file of its own", path.string()));
  return log;
}

RequestLog::~RequestLog() {
  if (file_ >= 0) ::close(file_);
}

void RequestLog::begin(const RequestLogHeader& header) {
  write(header_line(header));
}

void RequestLog::accepted(RequestId id, const EngineRequest& request, Time now) {
  const std::string line = request_line(id, now, request);
  {
    const std::lock_guard lock(mutex_);
    running_.try_emplace(id);
  }
  write(line);
}

void RequestLog::updated(const RequestUpdate& update, Time now) {
  try {
    note(update, now);
  } catch (...) {  // a log that lacks tokens is none
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = caught_exception(name_);
  }
}

void RequestLog::note(const RequestUpdate& update, Time now) {
  LoggedAnswer ended;
  {
    const std::lock_guard lock(mutex_);
    LoggedAnswer& answer = running_[update.id];
    answer.tokens.insert(answer.tokens.end(), update.tokens.begin(), update.tokens.end());
    answer.prompt_logprobs.insert(answer.prompt_logprobs.end(), update.prompt_logprobs.begin(),
                                  update.prompt_logprobs.end());
    if (update.end == nullptr) return;
    ended = std::move(answer);
    running_.erase(update.id);
  }
  ended.at = now;
  ended.reason = update.end->reason;
  ended.failure = update.end->failure.message();
  ended.weights_version = update.end->weights_version;
  write(end_line(update.id, ended));
}

// One write for a line: what a kill leaves of it is its beginning.
void RequestLog::write(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (file_ < 0 || !failure_.ok()) return;
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      failure_ = failure(name_);
      return;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

Status RequestLog::close() {
  const std::lock_guard lock(mutex_);
  if (file_ >= 0 && ::close(std::exchange(file_, -1)) != 0 && failure_.ok()) failure_ = failure(name_);
  return failure_;
}

}  // namespace deepinfer
