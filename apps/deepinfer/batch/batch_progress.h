// What a batch job says on standard error: a line that redraws itself on a terminal, a plain line now and then
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "serving/batch/batch_counts.h"

namespace deepinfer::cli {

using serving::BatchCounts;

// "done 40/100 lines  1234 tokens/s  ETA 1:05"; recent tokens a second, lines of this run for the estimate.
std::string progress_text(const BatchCounts& counts, std::optional<int64_t> lines, double seconds,
                          double tokens_per_second);

class BatchProgress {
 public:
  // lines: of the whole job, where known.  quiet: nothing is shown.
  BatchProgress(std::optional<int64_t> lines, bool quiet);
  ~BatchProgress();
  BatchProgress(const BatchProgress&) = delete;
  BatchProgress& operator=(const BatchProgress&) = delete;

  // Shows the counts when it is time to.
  void show(const BatchCounts& counts);
  // The last line: what this run did.
  void finish(const BatchCounts& counts);

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  std::optional<int64_t> lines_;
  bool quiet_, terminal_, drawn_ = false;
  Clock::time_point start_, next_;
  Clock::time_point window_start_;
  int64_t window_tokens_ = 0;
  double rate_ = 0;
};

}  // namespace deepinfer::cli
