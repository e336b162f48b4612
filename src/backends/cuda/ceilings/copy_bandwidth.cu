#include <cuda_runtime_api.h>

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/ceilings/random_words.cuh"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/timed_launches.h"

namespace deepinfer::cuda {

Result<double> measure_copy(int64_t bytes) {
  DI_ASSIGN_OR_RETURN(const DeviceBuffer from, DeviceBuffer::allocate(bytes));
  DI_ASSIGN_OR_RETURN(const DeviceBuffer to, DeviceBuffer::allocate(bytes));
  DI_RETURN_IF_ERROR(fill_random(from));
  DI_ASSIGN_OR_RETURN(const double seconds, best_seconds(nullptr, 20, "copy", [&] {
                        cudaMemcpyAsync(to.data(), from.data(), static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice);
                      }));
  return 2.0 * static_cast<double>(bytes) / seconds;
}

}  // namespace deepinfer::cuda
