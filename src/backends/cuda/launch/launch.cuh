// The launch of a kernel that takes one struct of arguments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/kernel_limits.h"
#include "backends/cuda/launch/launch_list.h"
#include "backends/cuda/launch/stream.h"

namespace deepinfer::cuda {

// A count of blocks as a dimension of a grid.
inline unsigned blocks(int64_t count) {
  return static_cast<unsigned>(count);
}
inline int64_t divided_up(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

struct LaunchOptions {
  unsigned cluster = 0;  // blocks, along x; 0: a kernel that knows of no clusters
  // The kernel calls wait_for_previous_kernels() (device/launch_dependency.cuh) in every thread before it touches what
  // another kernel may write or read: it may be launched while the one in front of it still runs.
  bool early = false;
};
// Of a kernel whose first statement is follow_previous_kernels().
constexpr LaunchOptions kEarly{.cluster = 0, .early = true};

// At once, on a stream without a list.
template <typename Arguments>
Status start_kernel(const LaunchShape& shape, std::string_view name, const void* arguments, CUstream_st* queue) {
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (shape.cluster > 0) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {shape.cluster, 1, 1};
  }
  if (shape.early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.grid[0], shape.grid[1], shape.grid[2]);
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared);
  config.stream = queue;
  config.attrs = attributes;
  config.numAttrs = count;
  auto* const kernel = reinterpret_cast<void (*)(Arguments)>(const_cast<void*>(shape.kernel));
  return cuda_status(cudaLaunchKernelEx(&config, kernel, *static_cast<const Arguments*>(arguments)), name);
}

// Nothing is launched where the grid is empty.  shared: bytes of dynamic shared memory.  name: a literal.
template <typename Arguments>
Status launch(void (*kernel)(Arguments), std::string_view name, dim3 grid, int threads, int64_t shared, Stream stream,
              const Arguments& arguments, LaunchOptions options = {}) {
  static_assert(std::is_trivially_copyable_v<Arguments> && alignof(Arguments) <= 64 && sizeof(Arguments) <= 4096);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return {};
  const auto* address = reinterpret_cast<const void*>(kernel);
  DI_RETURN_IF_ERROR(allow_shared(address, shared, name));
  const LaunchShape shape{address, {grid.x, grid.y, grid.z}, threads,
                          shared,  options.cluster,          options.early && kernels_may_be_early()};
  if (stream.list() != nullptr)
    return stream.list()->add(shape, start_kernel<Arguments>, name, &arguments, sizeof arguments);
  return start_kernel<Arguments>(shape, name, &arguments, stream.queue());
}

}  // namespace deepinfer::cuda
