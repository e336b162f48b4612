// The best of a stream of keys (selection.h), gathered by a block in shared memory.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

constexpr int kSelectionThreads = 256;

// Larger is better.  A NaN or -infinity is never selected: 0.
__device__ __forceinline__ uint64_t key_of(float score, int64_t index) {
  if (!(score > -__builtin_huge_valf())) return 0;
  const uint32_t bits = __float_as_uint(score + 0.0f);  // -0 is 0
  const uint32_t order = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return static_cast<uint64_t>(order) << 32 | (0xffffffffu - static_cast<uint32_t>(index));
}
__device__ __forceinline__ int32_t index_of(uint64_t key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
}

// count a power of two.
__device__ inline void sort_descending(uint64_t* keys, int count) {
  for (int size = 2; size <= count; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count / 2; i += static_cast<int>(blockDim.x)) {
        const int low = 2 * i - (i & (step - 1)), high = low + step;
        const bool descending = (low & size) == 0;
        const uint64_t a = keys[low], b = keys[high];
        if ((a < b) == descending) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  __syncthreads();
}

// Room for most keys and for those that may come before the next settle().
__host__ __device__ inline int best_keys_capacity(int64_t most) {
  int capacity = 512;
  while (capacity < most + kSelectionThreads || capacity < 2 * most) capacity *= 2;
  return capacity;
}

struct BestKeys {
  uint64_t* keys;       // shared, [capacity]
  int* count;           // shared
  uint64_t* threshold;  // shared: what is not above it is not among the best
  int capacity, most;

  __device__ void start() {
    if (threadIdx.x == 0) {
      *count = 0;
      *threshold = 0;
    }
  }
  // Between two settle(), at most one key a thread; 0 is none.
  __device__ void offer(uint64_t key) {
    if (key > *threshold) keys[atomicAdd(count, 1)] = key;
  }
  // By all threads, after a barrier that follows the offers.  Ends with a barrier.
  __device__ void settle() {
    const int now = *count;
    __syncthreads();
    if (now + kSelectionThreads > capacity) cut(now);
  }
  // Sorts and forgets all but the best.
  __device__ void cut(int now) {
    int sorted = 2;
    while (sorted < now) sorted *= 2;
    for (int i = now + static_cast<int>(threadIdx.x); i < sorted; i += static_cast<int>(blockDim.x))
      keys[i] = 0;
    sort_descending(keys, sorted);
    if (threadIdx.x == 0) {
      *count = min(now, most);
      *threshold = now >= most ? keys[most - 1] : 0;
    }
    __syncthreads();
  }
};

}  // namespace deepinfer::cuda
