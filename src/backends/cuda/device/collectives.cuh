// Reductions over a warp and over a block, in an order that depends on nothing but the number of threads.  All lanes of
// a warp, all threads of a block take part.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_id() {
  return static_cast<int>(threadIdx.x) % 32;
}
__device__ __forceinline__ int warp_id() {
  return static_cast<int>(threadIdx.x) / 32;
}

// Every lane gets the result.
__device__ __forceinline__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

// Every thread gets the result; kThreads a power of two from 32 to 1024.
template <int kThreads>
__device__ float block_sum(float value) {
  __shared__ float parts[kThreads / 32];
  value = warp_sum(value);
  __syncthreads();  // the parts of the sum before have been read
  if (lane_id() == 0) parts[warp_id()] = value;
  __syncthreads();
  float sum = parts[0];
  for (int i = 1; i < kThreads / 32; ++i) sum += parts[i];
  return sum;
}

}  // namespace deepinfer::cuda
