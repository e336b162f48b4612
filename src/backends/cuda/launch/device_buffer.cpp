#include "backends/cuda/launch/device_buffer.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "backends/cuda/launch/cuda_status.h"

namespace deepinfer::cuda {

Result<DeviceBuffer> DeviceBuffer::allocate(int64_t bytes) {
  void* data = nullptr;
  DI_RETURN_IF_ERROR(
      cuda_status(cudaMalloc(&data, static_cast<size_t>(bytes)), fmt::format("{} bytes of device memory", bytes)));
  return DeviceBuffer(static_cast<std::byte*>(data), bytes);
}

DeviceBuffer::~DeviceBuffer() {
  cudaFree(data_);
}

}  // namespace deepinfer::cuda
