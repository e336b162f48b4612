// KernelChain: recorded launches as an executable graph: a chain, and side lines that it joins.  Owned by ChainCache.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/cuda/launch/recorded_launch.h"
#include "base/status.h"

struct CUstream_st;

namespace deepinfer::cuda {

class KernelChain {
 public:
  static Result<KernelChain> make(const RecordedLaunches& launches, CUstream_st* queue);
  KernelChain(KernelChain&&) noexcept;
  KernelChain& operator=(KernelChain&&) noexcept;
  ~KernelChain();

  // A node gets another grid and other arguments from the next launch on; the rest of the shape is the node's own.
  Status set(size_t i, const LaunchShape& shape, std::string_view name, const void* arguments);
  Status launch(CUstream_st* queue);

 private:
  struct Nodes;
  explicit KernelChain(std::unique_ptr<Nodes> nodes);
  std::unique_ptr<Nodes> nodes_;
};

}  // namespace deepinfer::cuda
