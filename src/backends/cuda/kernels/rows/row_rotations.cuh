// The rotations of a row of Rope, once for all heads, in shared memory.
#pragma once

#include <cstdint>

#include "backends/cuda/device/rotation.cuh"
#include "ops/rope.h"

namespace deepinfer::cuda {

constexpr int kMostPairs = 256;

// By all threads of a block of kThreads; ends with a barrier.  rotations: kMostPairs.
template <int kThreads>
__device__ __forceinline__ void make_rotations(const Rope& op, int64_t row, Rotation* rotations) {
  for (int i = static_cast<int>(threadIdx.x); i < op.table.pairs; i += kThreads) {
    rotations[i] = rotation_at(op.position[row], op.table.frequencies[i]);
    if (op.inverse) rotations[i].sin = -rotations[i].sin;
  }
  __syncthreads();
}

inline bool rotates_part_of_heads(const Rope& op) {
  return op.table.pairs <= kMostPairs && 2 * op.table.pairs <= op.head_dim &&
         op.x.columns == int64_t{op.heads} * op.head_dim;
}

}  // namespace deepinfer::cuda
