#include "backends/cuda/cuda_ops.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "backends/cuda/any_ops.h"
#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/sm90_ops.h"

namespace deepinfer {

namespace {

Result<bool> graphs_allowed() {
  const char* const variable = std::getenv("DEEPINFER_CUDA_GRAPHS");
  const std::string_view value = variable != nullptr ? variable : "on";
  if (value != "on" && value != "off")
    return invalid_argument(fmt::format("DEEPINFER_CUDA_GRAPHS={}: allowed are on, off", value));
  return value == "on";
}

}  // namespace

Result<std::unique_ptr<Ops>> make_cuda_ops(std::string_view path, bool use_graphs, double memory_share) {
  using cuda::cuda_status;
  int device = 0, major = 0, minor = 0;
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "no GPU"));
  DI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "no GPU"));
  DI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "no GPU"));
  if (major < 8)
    return unsupported(
        fmt::format("a GPU of compute capability 8.0 or more is needed, this one has {}.{}", major, minor));
  const bool hopper = major == 9 && minor == 0;
  const char* const variable = std::getenv("DEEPINFER_CUDA_PATH");
  if (path.empty()) path = variable != nullptr ? variable : hopper ? "sm90" : "any";
  if (path != "any" && path != "sm90")
    return invalid_argument(fmt::format("DEEPINFER_CUDA_PATH={}: allowed are any, sm90", path));
  if (path == "sm90" && !hopper)
    return unsupported(fmt::format(
        "DEEPINFER_CUDA_PATH=sm90: it is for compute capability 9.0, this GPU has {}.{}; use any", major, minor));
  DI_ASSIGN_OR_RETURN(const bool graphs, graphs_allowed());
  std::unique_ptr<cuda::AnyOps> ops;
  if (path == "sm90") {
    ops = std::make_unique<cuda::Sm90Ops>();
  } else {
    ops = std::make_unique<cuda::AnyOps>();
  }
  DI_RETURN_IF_ERROR(ops->open(use_graphs && graphs, memory_share));
  return std::unique_ptr<Ops>(std::move(ops));
}

}  // namespace deepinfer
