// The new streams of a row, HyperConnectionExpand of ops/hyper_connection.h, for the kernels of this folder.
#pragma once

#include <cstdint>

#include "backends/cuda/device/row_channels.cuh"
#include "backends/cuda/device/views.cuh"
#include "base/check.h"
#include "ops/hyper_connection.h"
#include "tensor/formats.h"

namespace deepinfer::cuda {

struct Coefficients {
  float post[kHyperCopies], comb[kHyperCopies * kHyperCopies];
};

__device__ __forceinline__ Coefficients coefficients_of(const HyperConnectionExpand& op, int64_t m) {
  Coefficients of_row;
#pragma unroll
  for (int j = 0; j < kHyperCopies; ++j) of_row.post[j] = row_of(op.post, m)[j];
#pragma unroll
  for (int i = 0; i < kHyperCopies * kHyperCopies; ++i) of_row.comb[i] = row_of(op.comb, m)[i];
  return of_row;
}

// `copies` becomes the new streams.
template <bool kAligned>
__device__ __forceinline__ void expand_channels(const HyperConnectionExpand& op, const Coefficients& of_row, int64_t m,
                                                int64_t c, float (&copies)[kHyperCopies][kChannels]) {
  const auto& [post, comb] = of_row;
  const int64_t d = op.y.columns;
  bf16* streams = row_of(op.streams, m);
  float y[kChannels], old[kHyperCopies][kChannels];
  load_channels<kAligned>(row_of(op.y, m), c, d, y);
#pragma unroll
  for (int i = 0; i < kHyperCopies; ++i) load_channels<kAligned>(streams + i * d, c, d, old[i]);
#pragma unroll
  for (int j = 0; j < kHyperCopies; ++j) {
#pragma unroll
    for (int channel = 0; channel < kChannels; ++channel) {
      float sum = comb[j] * old[0][channel];
#pragma unroll
      for (int i = 1; i < kHyperCopies; ++i) sum += comb[i * kHyperCopies + j] * old[i][channel];
      copies[j][channel] = post[j] * y[channel] + sum;
    }
    round_channels(copies[j]);
    store_channels<kAligned>(streams + j * d, c, d, copies[j]);
  }
}

// Without the next input.
inline bool in_units_of_channels(const HyperConnectionExpand& op) {
  return op.y.columns % kChannels == 0 && in_units_of_channels(op.y) && in_units_of_channels(op.streams);
}

inline void check_next_input(const HyperConnectionExpand& op) {
  DI_CHECK(op.next.streams.data == op.streams.data && op.next.x.columns == op.y.columns &&
               op.next.pre.columns == kHyperCopies && op.next.x.rows == op.y.rows,
           "the next input is made of the same rows");
  DI_CHECK(op.next.quantized.data == nullptr || op.y.columns % kFp8Group == 0, "inputs are rounded in groups of 32");
}

}  // namespace deepinfer::cuda
