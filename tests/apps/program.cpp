#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace deepinfer::cli {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2];
    DI_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

std::vector<std::string> environment_of(const ProgramRun& run) {
  std::vector<std::string> list;
  for (const char* name :
       {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "DEEPINFER_CPU_ISA"})
    if (const char* value = std::getenv(name); value != nullptr && !run.environment.contains(name))
      list.push_back(std::string(name) + "=" + value);
  for (const auto& [name, value] : run.environment) list.push_back(name + "=" + value);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (std::string& string : strings) list.push_back(string.data());
  list.push_back(nullptr);
  return list;
}

// Appends what can be read; false at the end of the stream.
bool read_some(int descriptor, std::string& text) {
  char piece[4096];
  const ssize_t got = ::read(descriptor, piece, sizeof piece);
  if (got > 0) text.append(piece, static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

ProgramResult run_program(const ProgramRun& run) {
  Pipe input, output, errors;
  std::vector<std::string> arguments = {run.program.empty() ? DEEPINFER_PROGRAM : run.program};
  arguments.insert(arguments.end(), run.arguments.begin(), run.arguments.end());
  std::vector<std::string> environment = environment_of(run);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  const pid_t child = ::fork();
  DI_CHECK(child >= 0, "no process");
  if (child == 0) {
    ::dup2(input.read_end, STDIN_FILENO);
    ::dup2(output.write_end, STDOUT_FILENO);
    ::dup2(errors.write_end, STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  Pipe::close_end(input.read_end);
  Pipe::close_end(output.write_end);
  Pipe::close_end(errors.write_end);
  ::signal(SIGPIPE, SIG_IGN);  // a program may end without reading its input

  ProgramResult result;
  size_t written = 0;
  const auto deadline = std::chrono::steady_clock::now() + run.time_limit;
  while (output.read_end >= 0 || errors.read_end >= 0) {
    if (written == run.input.size()) Pipe::close_end(input.write_end);
    pollfd waiting[3] = {{output.read_end, POLLIN, 0}, {errors.read_end, POLLIN, 0}, {input.write_end, POLLOUT, 0}};
    ::poll(waiting, 3, 100);
    if (waiting[2].revents != 0) {
      const ssize_t sent = ::write(input.write_end, run.input.data() + written, run.input.size() - written);
      written = sent >= 0 ? written + static_cast<size_t>(sent) : run.input.size();
    }
    if (waiting[0].revents != 0) {
      if (!read_some(output.read_end, result.output)) Pipe::close_end(output.read_end);
      if (run.on_output)
        if (const int signal = run.on_output(result.output); signal != 0) ::kill(child, signal);
      if (run.close_output_early && !result.output.empty()) Pipe::close_end(output.read_end);
    }
    if (waiting[1].revents != 0 && !read_some(errors.read_end, result.errors)) Pipe::close_end(errors.read_end);
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "the program did not end within " << run.time_limit.count() << " s";
      ::kill(child, SIGKILL);
      break;
    }
  }
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.peak_rss_kib = usage.ru_maxrss;
  return result;
}

ProgramResult deepinfer(std::vector<std::string> arguments, std::string input) {
  return run_program({.arguments = std::move(arguments), .input = std::move(input)});
}

}  // namespace deepinfer::cli
