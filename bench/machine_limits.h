// What this machine can do at best: the limits that benchmark figures stand beside.  Each call is one sample of a few
// milliseconds to a second; benchmarks take them in turn with what they measure, since a shared machine changes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace deepinfer::bench {

// Largest cache of the machine, all levels and sockets of one core's view; 0 where the system does not say.
int64_t last_level_cache_bytes();

// Reads a buffer that no cache holds, with all threads of a pool.
class ReadBandwidth {
 public:
  // bytes: at least four times the last-level cache, or what the caller can spare.
  static Result<ReadBandwidth> prepare(int64_t bytes, ThreadPool& pool);

  // Bytes a second of one pass.  The buffer then fills the caches: nothing of the caller's data is left in them.
  double sample(ThreadPool& pool);
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }

 private:
  explicit ReadBandwidth(Buffer buffer) : buffer_(std::move(buffer)) {}
  Buffer buffer_;
};

}  // namespace deepinfer::bench
