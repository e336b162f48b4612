// make_cuda_ops of the emulation: it has the portable path only.
#include "backends/cuda/any_ops.h"
#include "backends/cuda/cuda_ops.h"

namespace deepinfer {

Result<std::unique_ptr<Ops>> make_cuda_ops(std::string_view path, bool use_graphs, double memory_share) {
  if (path == "sm90") return unsupported("the emulation has the path `any`");
  auto ops = std::make_unique<cuda::AnyOps>();
  DI_RETURN_IF_ERROR(ops->open(use_graphs, memory_share));
  return std::unique_ptr<Ops>(std::move(ops));
}

}  // namespace deepinfer
