#include "models/cache_layout.h"

namespace deepinfer {

std::string_view to_string(CacheRetention retention) {
  switch (retention) {
    case CacheRetention::kFullHistory:
      return "full history";
    case CacheRetention::kSlidingWindow:
      return "sliding window";
    case CacheRetention::kRunningState:
      return "running state";
  }
  return "?";
}

int64_t CacheLayout::bytes_per_block() const {
  int64_t bytes = 0;
  for (const CacheGroupSpec& group : groups) {
    if (!group.is_ring())
      bytes +=
          static_cast<int64_t>(group.layers.size()) * group.record_bytes * (tokens_per_block / group.tokens_per_record);
  }
  return bytes;
}

int64_t CacheLayout::bytes_per_sequence() const {
  int64_t bytes = 0;
  for (const CacheGroupSpec& group : groups) {
    if (group.is_ring()) bytes += static_cast<int64_t>(group.layers.size()) * group.record_bytes * group.slots;
  }
  return bytes;
}

}  // namespace deepinfer
