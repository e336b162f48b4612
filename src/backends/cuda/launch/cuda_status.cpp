#include "backends/cuda/launch/cuda_status.h"

#include <fmt/format.h>

namespace deepinfer::cuda {

Status cuda_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  const StatusCode code =
      error == cudaErrorMemoryAllocation ? StatusCode::kResourceExhausted : StatusCode::kDeviceFailure;
  return {code, fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error))};
}

Status launch_status(std::string_view kernel) {
  return cuda_status(cudaGetLastError(), kernel);
}

}  // namespace deepinfer::cuda
