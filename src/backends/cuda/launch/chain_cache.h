// ChainCache: runs recorded launches, one by one or as an executable graph that ran before.  Owned by LaunchList.
//
// A sequence of kernels that comes for the second time with the same grids becomes a graph.  A graph serves every list
// with its kernels and most of its grids: nodes whose grid or arguments differ get the list's first.  What runs is the
// list in either case, so that the bits are the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>

#include "backends/cuda/launch/kernel_chain.h"
#include "backends/cuda/launch/recorded_launch.h"
#include "base/status.h"

struct CUstream_st;

namespace deepinfer::cuda {

// How lists ran, since the start.
struct LaunchCounts {
  int64_t one_by_one = 0;  // kernels
  int64_t graphs = 0;      // launches of graphs
  int64_t in_graphs = 0;   // kernels in these
  int64_t changed = 0;     // nodes that got new arguments for it
  int64_t made = 0;        // graphs
};

class ChainCache {
 public:
  // use_graphs: otherwise every list runs kernel by kernel.
  explicit ChainCache(bool use_graphs = true) : use_graphs_(use_graphs) {}
  Status run(const RecordedLaunches& launches, CUstream_st* queue);
  const LaunchCounts& counts() const { return counts_; }

 private:
  static constexpr size_t kMostChains = 48;
  static constexpr size_t kLeastKernels = 4;  // of a graph: fewer are launched as fast one by one
  struct Chain {
    RecordedLaunches launches;  // as the graph has them
    KernelChain chain;
  };

  Chain* nearest(const RecordedLaunches& launches);
  bool seen_before(uint64_t shape);
  Status run_chain(Chain& chain, const RecordedLaunches& launches, CUstream_st* queue);
  Status run_one_by_one(const RecordedLaunches& launches, CUstream_st* queue);

  bool use_graphs_;
  std::list<Chain> chains_;                  // the one that ran last comes first
  std::array<uint64_t, 256> seen_shapes_{};  // of lists that ran one by one, the latest
  size_t next_seen_ = 0;
  LaunchCounts counts_;
};

}  // namespace deepinfer::cuda
