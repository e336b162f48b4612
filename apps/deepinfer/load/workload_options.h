// The options of commands that make up their requests: which workload, how long, how many.
#pragma once

#include <cstdint>
#include <optional>

#include "load/workload.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

struct WorkloadCommandOptions {
  std::optional<int64_t> prompt_tokens, answer_tokens, requests;
  std::optional<double> spread;
  std::optional<float> temperature;
  std::optional<uint64_t> seed;
  WorkloadOptions named;  // kind and file, of --workload

  WorkloadOptions workload(int32_t draft_tokens) const;
};

// Ranges are checked while the command line is read.
void add_workload_options(CLI::App& command, WorkloadCommandOptions& options);

}  // namespace deepinfer::cli
