#include <cuda_runtime_api.h>

#include <mutex>
#include <unordered_map>

#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/kernel_limits.h"

namespace deepinfer::cuda {
namespace {

constexpr int64_t kAlwaysAllowed = 32 * 1024;  // of 48 KB, of which a kernel names up to 16 itself

__global__ void compiled_as_the_others() {}

}  // namespace

Status allow_shared(const void* kernel, int64_t bytes, std::string_view name) {
  if (bytes <= kAlwaysAllowed) return {};
  static std::mutex mutex;
  static std::unordered_map<const void*, int64_t> allowed;
  const std::scoped_lock lock(mutex);
  int64_t& most = allowed[kernel];
  if (bytes <= most) return {};
  DI_RETURN_IF_ERROR(cuda_status(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name));
  most = bytes;
  return {};
}

bool kernels_may_be_early() {
  static const bool early = [] {
    cudaFuncAttributes attributes = {};
    return cudaFuncGetAttributes(&attributes, compiled_as_the_others) == cudaSuccess && attributes.ptxVersion >= 90;
  }();
  return early;
}

Result<int> multiprocessor_count() {
  int device = 0, count = 0;
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "device"));
  DI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "device"));
  return count;
}

}  // namespace deepinfer::cuda
