#include "backends/cuda/launch/chain_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace deepinfer::cuda {
namespace {

constexpr size_t kNoMatch = SIZE_MAX;

// Launches whose grids differ; kNoMatch where a graph cannot serve the list at all.
size_t grid_differences(const RecordedLaunches& a, const RecordedLaunches& b) {
  if (a.count() != b.count() || a.kernels_key() != b.kernels_key()) return kNoMatch;
  size_t differences = 0;
  for (size_t i = 0; i < a.count(); ++i) {
    if (!a[i].shape.same_but_for_grid(b[i].shape) || a[i].argument_bytes != b[i].argument_bytes) return kNoMatch;
    if (!a[i].shape.same_grid(b[i].shape)) ++differences;
  }
  return differences;
}

}  // namespace

Status ChainCache::run(const RecordedLaunches& launches, CUstream_st* queue) {
  if (!use_graphs_ || launches.count() < kLeastKernels) return run_one_by_one(launches, queue);
  if (Chain* const chain = nearest(launches); chain != nullptr) return run_chain(*chain, launches, queue);
  if (!seen_before(launches.shape_key())) return run_one_by_one(launches, queue);
  Result<KernelChain> made = KernelChain::make(launches, queue);
  if (!made.ok()) {
    use_graphs_ = false;  // the device has no room for them; kernels one by one are as right
    return run_one_by_one(launches, queue);
  }
  ++counts_.made;
  if (chains_.size() == kMostChains) chains_.pop_back();
  chains_.push_front({launches, std::move(made).value()});
  return run_chain(chains_.front(), launches, queue);
}

// The graph with the fewest other grids, at most a quarter: to change a node costs about as much as to launch a kernel.
ChainCache::Chain* ChainCache::nearest(const RecordedLaunches& launches) {
  auto best = chains_.end();
  size_t least = launches.count() / 4 + 1;
  for (auto chain = chains_.begin(); chain != chains_.end() && least > 0; ++chain) {
    const size_t differences = grid_differences(chain->launches, launches);
    if (differences >= least) continue;
    least = differences;
    best = chain;
  }
  if (best == chains_.end()) return nullptr;
  chains_.splice(chains_.begin(), chains_, best);
  return &chains_.front();
}

bool ChainCache::seen_before(uint64_t shape) {
  if (std::find(seen_shapes_.begin(), seen_shapes_.end(), shape) != seen_shapes_.end()) return true;
  seen_shapes_[next_seen_] = shape;
  next_seen_ = (next_seen_ + 1) % seen_shapes_.size();
  return false;
}

Status ChainCache::run_chain(Chain& chain, const RecordedLaunches& launches, CUstream_st* queue) {
  for (size_t i = 0; i < launches.count(); ++i) {
    const RecordedLaunch& launch = launches[i];
    const void* const arguments = launches.arguments(i);
    if (launch.shape.same_grid(chain.launches[i].shape) &&
        std::memcmp(arguments, chain.launches.arguments(i), launch.argument_bytes) == 0)
      continue;
    DI_RETURN_IF_ERROR(chain.chain.set(i, launch.shape, launch.name, arguments));
    chain.launches.set(i, launch.shape, arguments);
    ++counts_.changed;
  }
  ++counts_.graphs;
  counts_.in_graphs += static_cast<int64_t>(launches.count());
  return chain.chain.launch(queue);
}

Status ChainCache::run_one_by_one(const RecordedLaunches& launches, CUstream_st* queue) {
  counts_.one_by_one += static_cast<int64_t>(launches.count());
  for (size_t i = 0; i < launches.count(); ++i)
    DI_RETURN_IF_ERROR(launches[i].start(launches[i].shape, launches[i].name, launches.arguments(i), queue));
  return {};
}

}  // namespace deepinfer::cuda
