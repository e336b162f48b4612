// The launch of a kernel that takes one struct of arguments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/stream.h"

namespace deepinfer::cuda {

// A count of blocks as a dimension of a grid.
inline unsigned blocks(int64_t count) {
  return static_cast<unsigned>(count);
}
inline int64_t divided_up(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

// Nothing is launched where the grid is empty.  shared: bytes of dynamic shared memory; kernels that take more than
// 48 KB say so to the driver first.
template <typename Arguments>
Status launch(void (*kernel)(Arguments), std::string_view name, dim3 grid, int threads, int64_t shared, Stream stream,
              const Arguments& arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return {};
  if (shared > 48 * 1024) {
    DI_RETURN_IF_ERROR(cuda_status(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), name));
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = stream;
  return cuda_status(cudaLaunchKernelEx(&config, kernel, arguments), name);
}

}  // namespace deepinfer::cuda
