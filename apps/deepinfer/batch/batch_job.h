// A batch job: input lines through the engine into the results file, in their order.  Memory is bounded: some requests
// are in the engine, some finished answers wait for an earlier one; while that one takes long nothing new is submitted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "base/status.h"
#include "batch/batch_input.h"
#include "batch/batch_progress.h"
#include "batch/batch_results.h"
#include "serving/requests/prepared_request.h"

namespace deepinfer::cli {

// What all requests of a job share.
struct BatchContext {
  serving::RequestContext requests;
  uint64_t seed = 0;    // mixed with a line's key where its request has no seed
  int64_t created = 0;  // seconds since 1970, written into the answers
};

struct BatchLimits {
  int64_t submitted = 128;                     // requests in the engine
  int64_t lines = 2048;                        // of them and finished answers that wait
  int64_t waiting_bytes = int64_t{256} << 20;  // of finished answers that wait
  std::chrono::milliseconds sync_interval{5000};
};

// Skips the lines that `results` answers already and cuts off its torn end.  kInvalidArgument: line N of the results
// does not belong to line N of the input.
Result<int64_t> resume(BatchInput& input, BatchResults& results);

// Runs the lines that are left.  Once `interrupted` is set what runs is given up and kCancelled comes back; finished
// answers with nothing missing before them are in the file.  show is called about ten times a second.
Status run_batch(BatchInput& input, BatchResults& results, Engine& engine, const BatchContext& context,
                 const BatchLimits& limits, const std::atomic<bool>& interrupted, BatchCounts& counts,
                 const std::function<void(const BatchCounts&)>& show);

}  // namespace deepinfer::cli
