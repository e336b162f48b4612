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
  bool same_grids = false;
  Chain* const chain = nearest(launches, same_grids);
  if (chain != nullptr && same_grids) return run_chain(*chain, launches, queue);
  const int times = times_seen(launches.shape_key());
  if (times < (chain == nullptr ? 2 : kOftenSeen))
    return chain == nullptr ? run_one_by_one(launches, queue) : run_chain(*chain, launches, queue);
  return make_chain(launches, queue);
}

Status ChainCache::make_chain(const RecordedLaunches& launches, CUstream_st* queue) {
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

ChainCache::Chain* ChainCache::nearest(const RecordedLaunches& launches, bool& same_grids) {
  auto best = chains_.end();
  size_t least = launches.count() / 4 + 1;  // to change a node costs about as much as to launch a kernel
  for (auto chain = chains_.begin(); chain != chains_.end() && least > 0; ++chain) {
    const size_t differences = grid_differences(chain->launches, launches);
    if (differences >= least) continue;
    least = differences;
    best = chain;
  }
  if (best == chains_.end()) return nullptr;
  same_grids = least == 0;
  chains_.splice(chains_.begin(), chains_, best);
  return &chains_.front();
}

int ChainCache::times_seen(uint64_t shape) {
  const auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const SeenShape& s) { return s.key == shape; });
  if (seen != seen_.end()) return ++seen->times;
  seen_[next_seen_] = {shape, 1};
  next_seen_ = (next_seen_ + 1) % seen_.size();
  return 1;
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
