#include "bench/timed_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>

extern char** environ;

namespace deepinfer::bench {

Result<TimedProcess> time_process(const std::vector<std::string>& arguments) {
  using Clock = std::chrono::steady_clock;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return io_error(fmt::format("pipe: {}", std::generic_category().message(errno)));
  std::vector<std::string> strings = arguments;
  std::vector<char*> argv;
  for (std::string& string : strings) argv.push_back(string.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const auto start = Clock::now();
  const auto seconds = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  pid_t child = 0;
  const int error = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return io_error(fmt::format("cannot start {}: {}", arguments[0], std::generic_category().message(error)));
  }

  TimedProcess result;
  char piece[4096];
  while (true) {
    const ssize_t got = ::read(ends[0], piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (result.output.empty()) result.first_byte_seconds = seconds();
    result.output.append(piece, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  result.total_seconds = seconds();
  result.peak_resident_bytes = int64_t{usage.ru_maxrss} * 1024;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return io_error(fmt::format("{} {} failed", arguments[0], arguments[1]));
  return result;
}

}  // namespace deepinfer::bench
