// Exit codes of the program and how a library's Status becomes one.  docs/cli.md shows the same table.
#pragma once

#include <string>

#include "base/status.h"

namespace deepinfer::cli {

enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,       // a bug
  kUsage = 2,          // unknown option, missing or out-of-range value
  kInput = 3,          // the model, a file or the prompt is wrong or missing
  kMachine = 4,        // this build or machine cannot: unknown model type, CPU, memory, read or write refused
  kDifferent = 5,      // replay: an answer is another one than in the log
  kUnanswered = 6,     // serve: requests had to be ended before their answers were whole
  kEngineFailed = 7,   // serve: the engine broke down; a new process may do better
  kFileShrank = 74,    // a mapped model file became shorter while it was in use
  kInterrupted = 130,  // SIGINT
};

ExitCode exit_code(StatusCode code);

// Prints "deepinfer: error: <message>" as one line on standard error and returns the status's exit code.
ExitCode report_error(const Status& status);
// The same for a wrong use of options, whose exit code is kUsage.
ExitCode report_usage_error(const std::string& message);

}  // namespace deepinfer::cli
