// Graphs of kernels, and what a kernel may be launched with, under emulation: a graph runs what its nodes were given.
#include "backends/cuda/launch/kernel_chain.h"

#include <utility>

#include "backends/cuda/launch/kernel_limits.h"
#include "cuda_runtime_api.h"

namespace deepinfer::cuda {

struct KernelChain::Nodes {
  RecordedLaunches launches;
};

KernelChain::KernelChain(std::unique_ptr<Nodes> nodes) : nodes_(std::move(nodes)) {}
KernelChain::KernelChain(KernelChain&&) noexcept = default;
KernelChain& KernelChain::operator=(KernelChain&&) noexcept = default;
KernelChain::~KernelChain() = default;

Result<KernelChain> KernelChain::make(const RecordedLaunches& launches, CUstream_st*) {
  return KernelChain(std::make_unique<Nodes>(Nodes{launches}));
}

Status KernelChain::set(size_t i, const LaunchShape& shape, std::string_view, const void* arguments) {
  nodes_->launches.set(i, shape, arguments);
  return {};
}

Status KernelChain::launch(CUstream_st* queue) {
  const RecordedLaunches& launches = nodes_->launches;
  for (size_t i = 0; i < launches.count(); ++i)
    DI_RETURN_IF_ERROR(launches[i].start(launches[i].shape, launches[i].name, launches.arguments(i), queue));
  return {};
}

Status allow_shared(const void* kernel, int64_t bytes, std::string_view) {
  if (bytes > 48 * 1024) emulation::allow_shared(kernel, static_cast<int>(bytes));
  return {};
}

bool kernels_may_be_early() {
  return true;
}

}  // namespace deepinfer::cuda
