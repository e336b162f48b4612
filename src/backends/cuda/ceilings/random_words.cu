#include "backends/cuda/ceilings/random_words.cuh"

#include "backends/cuda/ceilings/ceilings.h"
#include "backends/cuda/launch/cuda_status.h"

namespace deepinfer::cuda {
namespace {

__global__ void fill(uint32_t* words, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    words[i] = hashed(static_cast<uint64_t>(i));
}

}  // namespace

Status fill_random(const DeviceBuffer& buffer) {
  fill<<<1024, 256>>>(buffer.as<uint32_t>(), buffer.bytes() / 4);
  return launch_status("fill");
}

}  // namespace deepinfer::cuda
