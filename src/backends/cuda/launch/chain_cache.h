// ChainCache: runs recorded launches, one by one or as an executable graph that ran before.  Owned by LaunchList.
//
// A graph serves every list with its kernels and most of its grids: nodes whose grid or arguments differ get the list's
// first.  Kernels and grids that no graph serves become one when they come for the second time; those that a graph
// serves with some changes get one of their own when they keep coming.  What runs is the list in every case, so that
// the bits are the same.
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

  static constexpr int kOftenSeen = 16;  // to make a graph costs as much as some thousand changes of nodes
  struct SeenShape {
    uint64_t key = 0;
    int times = 0;
  };

  // The graph with the fewest other grids, at most a quarter of them; null: none serves the list.
  Chain* nearest(const RecordedLaunches& launches, bool& same_grids);
  int times_seen(uint64_t shape);  // this time is one
  Status make_chain(const RecordedLaunches& launches, CUstream_st* queue);
  Status run_chain(Chain& chain, const RecordedLaunches& launches, CUstream_st* queue);
  Status run_one_by_one(const RecordedLaunches& launches, CUstream_st* queue);

  bool use_graphs_;
  std::list<Chain> chains_;            // the one that ran last comes first
  std::array<SeenShape, 256> seen_{};  // shapes without a graph of their own, the latest
  size_t next_seen_ = 0;
  LaunchCounts counts_;
};

}  // namespace deepinfer::cuda
