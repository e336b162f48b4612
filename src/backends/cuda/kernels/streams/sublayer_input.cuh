// The input of a sublayer, HyperConnectionCollapse of ops/hyper_connection.h, for the kernels of this folder: one block a
// row, whose rounded sums wait in shared memory for the norm.
#pragma once

#include <cstdint>

#include "backends/cuda/device/row_channels.cuh"
#include "backends/cuda/device/views.cuh"
#include "ops/hyper_connection.h"

namespace deepinfer::cuda {

struct Mix {
  float of_copy[kHyperCopies];
};

__device__ __forceinline__ Mix mix_of(const HyperConnectionCollapse& op, int64_t m) {
  const float* pre = row_of(op.pre, m);
  return {{pre[0], pre[1], pre[2], pre[3]}};
}

// The collapse of this thread's 8 channels, c on, of all four copies.  Adds their squares.
template <bool kAligned>
__device__ __forceinline__ void collapse_channels(const float (&copies)[kHyperCopies][kChannels], const Mix& pre,
                                                  int64_t c, int64_t d, bf16* values, float& squares) {
  float x[kChannels];
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    float sum = pre.of_copy[0] * copies[0][i];
#pragma unroll
    for (int j = 1; j < kHyperCopies; ++j) sum += pre.of_copy[j] * copies[j][i];
    x[i] = widen(round_to_bf16(sum));
    if (kAligned || c + i < d) squares += x[i] * x[i];
  }
  store_channels<kAligned>(values, c, d, x);
}

__device__ __forceinline__ NormedRow normed_row(const HyperConnectionCollapse& op, int64_t m) {
  return {op.norm, op.eps, row_of(op.x, m), op.quantized.data == nullptr ? nullptr : row_of(op.quantized, m)};
}

inline bool in_units_of_channels(const HyperConnectionCollapse& op) {
  return op.x.columns % kChannels == 0 && in_units_of_channels(op.streams) && in_units_of_channels(op.x) &&
         in_units_of_channels(op.quantized) && reinterpret_cast<uintptr_t>(op.norm) % 16 == 0;
}

}  // namespace deepinfer::cuda
