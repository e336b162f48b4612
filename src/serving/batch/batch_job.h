// A batch job: input lines through the engine into the results file, in their order.  Memory is bounded: some requests
// are in the engine, some finished answers wait for an earlier one; while that one takes long nothing new is submitted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "base/status.h"
#include "serving/batch/batch_counts.h"
#include "serving/batch/batch_input.h"
#include "serving/batch/batch_results.h"
#include "serving/requests/prepared_request.h"

namespace deepinfer::serving {

// What all requests of a job share.
struct BatchContext {
  RequestContext requests;
  uint64_t seed = 0;     // mixed with a line's key where its request has no seed
  int64_t created = 0;   // seconds since 1970, written into the answers
  uint64_t tenant = 0;   // as RequestIdentity's, like the next two
  int32_t priority = 0;  // added to that of each request
  int32_t highest_priority = kHighestPriority;
  // Is told the tokens of prompts that are accepted and of answers as they come, on the engine's threads too; may be
  // empty.  Outlives the engine.
  std::function<void(int64_t)> charge;
};

struct BatchLimits {
  // Answers in the engine; asked before each line.  While it is 0 nothing new is started.
  std::function<int64_t()> submitted = [] { return int64_t{128}; };
  int64_t lines = 2048;                        // of them and finished answers that wait
  int64_t waiting_bytes = int64_t{256} << 20;  // of finished answers that wait
  std::chrono::milliseconds sync_interval{5000};
};

// Skips the lines that `results` answers already and cuts off its torn end.  kInvalidArgument: line N of the results
// does not belong to line N of the input.
Result<int64_t> resume(BatchInput& input, BatchResults& results);

// Runs the lines that are left.  kInternal: the engine has failed; another run of the job goes on.  Once `interrupted`
// is set what runs is given up and kCancelled comes back; finished answers with nothing missing before them are in the
// file.  show is called about ten times a second.
Status run_batch(BatchInput& input, BatchResults& results, Engine& engine, const BatchContext& context,
                 const BatchLimits& limits, const std::atomic<bool>& interrupted, BatchCounts& counts,
                 const std::function<void(const BatchCounts&)>& show);

}  // namespace deepinfer::serving
