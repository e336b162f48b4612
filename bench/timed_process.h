// Runs a program and times it from outside: what its user waits for and what its memory peaks at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace deepinfer::bench {

struct TimedProcess {
  double first_byte_seconds = 0;  // from before the start to the first byte on standard output
  double total_seconds = 0;
  int64_t peak_resident_bytes = 0;
  std::string output;
};

// arguments[0] is the program's path.  Standard input is empty, standard error passes through.
// Errors: it cannot be started, or ends with another exit code than 0.
Result<TimedProcess> time_process(const std::vector<std::string>& arguments);

}  // namespace deepinfer::bench
