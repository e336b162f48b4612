// Runs the built program as a user would: arguments, standard input and environment in, exit code and both outputs out.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace deepinfer::cli {

struct ProgramRun {
  std::vector<std::string> arguments;
  std::string input = {};  // all of standard input
  std::map<std::string, std::string> environment =
      {};  // beside PATH and what sanitizers read; HOME and caches are not inherited
  // Called with all of standard output so far whenever some came; returns a signal to send, or 0.
  std::function<int(const std::string& output)> on_output = {};
  bool close_output_early = false;       // read the first bytes of standard output, then close the pipe
  std::string program = {};              // empty: the built one
  std::chrono::seconds time_limit{120};  // killed, and the test fails
};

struct ProgramResult {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string output;  // standard output
  std::string errors;  // standard error
  long peak_rss_kib = 0;
};

ProgramResult run_program(const ProgramRun& run);

// deepinfer ARGUMENTS < INPUT
ProgramResult deepinfer(std::vector<std::string> arguments, std::string input = "");

}  // namespace deepinfer::cli
