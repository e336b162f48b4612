// LaunchList: the kernels of a step, recorded while the host walks through its operations and put on the stream
// together: what operations cost the host is a copy of their arguments, and a step that looks like one before runs as a
// graph (chain_cache.h).  Owned by a backend; launch() adds to it, where the stream that it gets has one.
//
// Operations are called by one thread at a time.  flush() may be called by any thread: memory is read and written
// beside a step (tensor/memory.h).
#pragma once

#include <mutex>
#include <string_view>

#include "backends/cuda/launch/chain_cache.h"
#include "backends/cuda/launch/recorded_launch.h"
#include "base/status.h"

struct CUstream_st;

namespace deepinfer::cuda {

class UploadRing;

class LaunchList {
 public:
  // Before everything else.  Without graphs each kernel also waits for the end of the one before.
  void open(CUstream_st* queue, bool use_graphs);
  // The lists that recorded kernels read; it goes to the device in front of them.
  void use(UploadRing* lists) { lists_ = lists; }

  Status add(const LaunchShape& shape, StartKernel start, std::string_view name, const void* arguments, size_t bytes);
  // Kernels that are added until end_beside() are of a side line.  Only graphs make use of that.
  void begin_beside(SideLine line) { beside_ = static_cast<int8_t>(line); }
  void end_beside() { beside_ = -1; }
  // The next kernel of the main line, and so all behind it, waits for the line, or for all.
  void join(SideLine line) { joins_ |= static_cast<uint8_t>(1 << static_cast<int>(line)); }
  void join() { joins_ = kAllSideLines; }
  // Puts everything that was added on the stream.  The first error stays.
  Status flush();

  LaunchCounts counts();

 private:
  friend class UploadRing;
  // A step goes to the device in parts, so that it has work while the host records on.  It takes several times as long
  // for a kernel as the host does, so that each part may be so much longer than the one before.
  static constexpr size_t kFirstPart = 64;  // launches
  static constexpr size_t kPartGrowth = 4;
  static constexpr size_t kMostLaunches = 8192;
  static constexpr size_t kArgumentBytes = size_t{4} << 20;

  Status flush_locked();

  CUstream_st* queue_ = nullptr;
  bool overlaps_ = true;  // kernels that wait by themselves are launched early
  UploadRing* lists_ = nullptr;
  std::mutex mutex_;  // of what is below
  RecordedLaunches launches_;
  int8_t beside_ = -1;     // as LaunchShape has it
  uint8_t joins_ = 0;      // what the next kernel of the main line joins
  uint8_t awaited_ = 0;    // side lines that have kernels which nothing recorded waits for
  ChainCache chains_;
  size_t part_launches_ = kFirstPart;  // of the part that is recorded
  Status status_;
};

}  // namespace deepinfer::cuda
