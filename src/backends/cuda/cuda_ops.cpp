#include "backends/cuda/cuda_ops.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "backends/cuda/any_ops.h"
#include "backends/cuda/launch/cuda_status.h"

namespace deepinfer {

Result<std::unique_ptr<Ops>> make_cuda_ops() {
  using cuda::cuda_status;
  int device = 0, major = 0, minor = 0;
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "no GPU"));
  DI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "no GPU"));
  DI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "no GPU"));
  if (major < 8)
    return unsupported(
        fmt::format("a GPU of compute capability 8.0 or more is needed, this one has {}.{}", major, minor));
  const char* variable = std::getenv("DEEPINFER_CUDA_PATH");
  const std::string_view path = variable == nullptr ? "any" : variable;
  if (path == "sm90")
    return unsupported("DEEPINFER_CUDA_PATH=sm90: not every operation has an SM90 kernel yet; use any");
  if (path != "any") return invalid_argument(fmt::format("DEEPINFER_CUDA_PATH={}: `any` is the only path", path));
  auto ops = std::make_unique<cuda::AnyOps>();
  DI_RETURN_IF_ERROR(ops->open());
  return std::unique_ptr<Ops>(std::move(ops));
}

}  // namespace deepinfer
