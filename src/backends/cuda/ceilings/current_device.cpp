#include <cuda_runtime_api.h>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/launch/cuda_status.h"

namespace deepinfer::cuda {

Result<Device> current_device() {
  int index = 0;
  cudaDeviceProp properties;
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&index), "no GPU"));
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDeviceProperties(&properties, index), "no GPU"));
  return Device{.name = properties.name,
                .capability = properties.major * 10 + properties.minor,
                .multiprocessors = properties.multiProcessorCount,
                .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                .l2_bytes = properties.l2CacheSize};
}

}  // namespace deepinfer::cuda
