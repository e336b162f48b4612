// Runs the requests of a log again and compares every answer.  Called by `deepinfer replay`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/request_log/request_log.h"

namespace deepinfer::cli {

struct ReplayOptions {
  bool recorded_speed = false;      // requests come when they came; else as fast as the engine takes them
  int64_t submitted = 128;          // at most so many have not ended; ignored at the recorded speed
  std::optional<int> draft_tokens;  // in place of the requests' own
};

struct ReplayCounts {
  int64_t same = 0;
  int64_t different = 0;
  int64_t unfinished = 0;     // the log has no end of it
  int64_t drafted = 0;        // drafts have a say in it (SpeculativeSampling::kRejection): every run has its own
  int64_t other_weights = 0;  // made after an update of the weights
  int64_t empty = 0;          // cancelled or out of time before the first token: nothing to compare
};

// on_difference: a request and the difference in words, one call at a time.
ReplayCounts replay(Engine& engine, RequestLogContents log, const ReplayOptions& options,
                    const std::function<void(RequestId id, const std::string& difference)>& on_difference);

}  // namespace deepinfer::cli
