// The input of a sublayer, HyperConnectionCollapse of ops/hyper_connection.h, for the kernels of this folder: one block
// a row, whose rounded sums wait in shared memory for the norm.
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

// The collapse of 8 channels of all four copies, and the sum of their squares; channels that are not there are zero.
__device__ __forceinline__ float collapse_channels(const float (&copies)[kHyperCopies][kChannels], const Mix& pre,
                                                   float (&x)[kChannels]) {
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    float sum = pre.of_copy[0] * copies[0][i];
#pragma unroll
    for (int j = 1; j < kHyperCopies; ++j) sum += pre.of_copy[j] * copies[j][i];
    x[i] = sum;
  }
  round_channels(x);
  float squares = x[0] * x[0];
#pragma unroll
  for (int i = 1; i < kChannels; ++i) squares += x[i] * x[i];
  return squares;
}

__device__ __forceinline__ NormedRow normed_row(const HyperConnectionCollapse& op, int64_t m) {
  return {op.norm, op.eps, row_of(op.x, m), op.quantized.data == nullptr ? nullptr : row_of(op.quantized, m)};
}

inline bool in_units_of_channels(const HyperConnectionCollapse& op) {
  return op.x.columns % kChannels == 0 && in_units_of_channels(op.streams) && in_units_of_channels(op.x) &&
         in_units_of_channels(op.quantized) && reinterpret_cast<uintptr_t>(op.norm) % 16 == 0;
}

}  // namespace deepinfer::cuda
