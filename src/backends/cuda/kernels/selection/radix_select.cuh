// The best of different keys (selection.h) in shared memory without sorting them: digit by digit, from the highest bit
// in which they differ on.  By all threads of a block, 256 at least.
#pragma once

#include <cstdint>

#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/kernels/selection/best_keys.cuh"

namespace deepinfer::cuda {

// Shared memory of a selection.
struct RadixRoom {
  int bins[256];
  uint32_t differ[2];  // bits in which keys differ: lower and upper half
  int digit, above, inside;
  int kept;
};

// The least of the `most` largest of `count` keys, count > most.
__device__ inline uint64_t least_of_best(const uint64_t* keys, int count, int most, RadixRoom& room) {
  const int own = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (own < 2) room.differ[own] = 0;
  __syncthreads();
  uint32_t low = 0, high = 0;
  for (int i = own; i < count; i += threads) {
    const uint64_t differs = keys[i] ^ keys[0];
    low |= static_cast<uint32_t>(differs);
    high |= static_cast<uint32_t>(differs >> 32);
  }
  low = __reduce_or_sync(kAllLanes, low);
  high = __reduce_or_sync(kAllLanes, high);
  if (lane_id() == 0) {
    atomicOr(&room.differ[0], low);
    atomicOr(&room.differ[1], high);
  }
  __syncthreads();
  const int bits = room.differ[1] != 0 ? 64 - __clz(static_cast<int>(room.differ[1]))
                                       : 32 - __clz(static_cast<int>(room.differ[0]));  // that are not common
  int shift = max(bits - 8, 0), width = bits - shift, wanted = most;
  uint64_t prefix = bits == 64 ? 0 : keys[0] >> bits;
  while (true) {
    if (own < 256) room.bins[own] = 0;
    __syncthreads();
    for (int i = own; i < count; i += threads) {
      const uint64_t key = keys[i] >> shift;
      if ((key >> width) == prefix) atomicAdd(&room.bins[key & ((1u << width) - 1)], 1);
    }
    __syncthreads();
    if (own < 32) {  // lane l: eight bins, the largest digits in lane 0
      int sum = 0;
      for (int b = 0; b < 8; ++b) sum += room.bins[255 - 8 * own - b];
      int through = sum;
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(kAllLanes, through, step);
        if (own >= step) through += other;
      }
      if (through >= wanted && through - sum < wanted) {
        int above = through - sum, digit = 255 - 8 * own;
        while (above + room.bins[digit] < wanted) above += room.bins[digit--];
        room.digit = digit;
        room.above = above;
        room.inside = room.bins[digit];
      }
    }
    __syncthreads();
    prefix = prefix << width | static_cast<uint64_t>(room.digit);
    wanted -= room.above;
    if (room.inside == wanted || shift == 0) return prefix << shift;
    width = min(8, shift);
    shift -= width;
  }
}

// Forgets all but the best, in no order.  Ends with a barrier.
__device__ inline void keep_best(BestKeys& best, RadixRoom& room) {
  const int own = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x), count = *best.count;
  __syncthreads();
  if (count <= best.most) return;
  const uint64_t least = least_of_best(best.keys, count, best.most, room);
  if (own == 0) room.kept = 0;
  for (int first = 0; first < count; first += threads) {
    const uint64_t key = first + own < count ? best.keys[first + own] : 0;
    __syncthreads();  // what is overwritten has been read
    if (key >= least) best.keys[atomicAdd(&room.kept, 1)] = key;
  }
  __syncthreads();
  if (own == 0) {
    *best.count = best.most;
    *best.threshold = least - 1;
  }
  __syncthreads();
}

}  // namespace deepinfer::cuda
