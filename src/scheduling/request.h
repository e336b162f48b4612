// Request: what the scheduler knows of one answer to be made.  Text, sampling and grammar live elsewhere: a scheduler
// sees token ids and numbers only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

namespace deepinfer {

using RequestId = uint64_t;

// Time since the engine started.  The scheduler has no clock: callers say what time it is.
using Time = std::chrono::nanoseconds;
inline constexpr Time kNever = Time::max();

struct Request {
  RequestId id = 0;             // never used before
  std::vector<int32_t> prompt;  // at least one token
  int64_t max_tokens = 1;       // of the answer, at least one
  int drafts = 0;               // most draft tokens that are verified in a step
  int32_t priority = 0;         // the higher goes first; equals go in the order of submission
  Time deadline = kNever;       // ends with EndReason::kDeadline at the first plan made after it
  uint64_t salt = 0;            // prefixes are shared among requests with the same salt only
  bool reuse_prefix = true;     // may start from cached records
  bool publish_prefix = true;   // may leave its records for others
  // First position whose logits are wanted: cached records are used below it only.  -1: the last of the prompt.
  int64_t logits_from = -1;
  // Cached records are used below this position only, however far they reach; -1: up to logits_from.
  int64_t reuse_below = -1;

  // Bounds what is used of the cache for an admission that wants logits from `position` on.
  int64_t reused_below(int64_t position) const { return reuse_below < 0 ? position : std::min(position, reuse_below); }
};

enum class EndReason : uint8_t {
  kStop,       // a stop token, a stop string, or the consumer had enough
  kLength,     // max_tokens
  kCancelled,  // cancel()
  kDeadline,
  kError,  // the executor reported one: a bad logit, a grammar without continuation
};

}  // namespace deepinfer
