// What a lane holds of a piece of 64 columns (products.h): columns [16 t, 16 t + 16), t = lane % 4, of a row, as eight
// pairs of bf16 numbers.  Step s of a piece takes the pairs 2 s and 2 s + 1, of weights and of x alike.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/mma.cuh"
#include "ops/linear.h"

namespace deepinfer::cuda {

__device__ __forceinline__ void set_pairs(uint32_t (&pairs)[8], const uint4& first, const uint4& second) {
  pairs[0] = first.x;
  pairs[1] = first.y;
  pairs[2] = first.z;
  pairs[3] = first.w;
  pairs[4] = second.x;
  pairs[5] = second.y;
  pairs[6] = second.z;
  pairs[7] = second.w;
}

// 16 neighbouring bf16 numbers; zeros where they are not there.
__device__ __forceinline__ void load_bf16(uint32_t (&pairs)[8], const void* from, bool there) {
  uint4 first = make_uint4(0, 0, 0, 0), second = first;
  if (there) {
    first = reinterpret_cast<const uint4*>(from)[0];
    second = reinterpret_cast<const uint4*>(from)[1];
  }
  set_pairs(pairs, first, second);
}

// Values times 2^-kBias, given by their bits, times the e8m0 scale and 2^kBias.  One exact product where the factor is
// a float, as it is for all but absurd scales.
template <int kBias>
__device__ __forceinline__ uint32_t scaled_pair(uint32_t first, uint32_t second, uint32_t scale) {
  if (scale + kBias <= 254) {
    const float factor = __uint_as_float((scale + kBias) << 23);
    return pair_of(__uint_as_float(first) * factor, __uint_as_float(second) * factor);
  }
  const float bias = __uint_as_float((kBias + 127u) << 23), factor = __uint_as_float(scale << 23);
  return pair_of(__uint_as_float(first) * bias * factor, __uint_as_float(second) * bias * factor);
}

__device__ __forceinline__ uint32_t e4m3_bits(uint32_t code) {  // low 8 bits; of the value times 2^-120
  return (code & 0x80u) << 24 | (code & 0x7fu) << 20;
}
__device__ __forceinline__ uint32_t e2m1_bits(uint32_t code) {  // low 4 bits; of the value times 2^-126
  return (code & 8u) << 28 | (code & 7u) << 22;
}

// Columns [column, column + 16) of a row of the weight, column a multiple of 16; zeros beyond the weight's end.
template <LinearWeight::Format kFormat>
__device__ __forceinline__ void load_weight(uint32_t (&pairs)[8], const LinearWeight& weight, int64_t row,
                                            int64_t column) {
  const bool there = row < weight.n && column < weight.k;
  const auto* data = static_cast<const uint8_t*>(weight.data);
  if constexpr (kFormat == LinearWeight::Format::kBf16) {
    load_bf16(pairs, data + (row * weight.k + column) * 2, there);
  } else if constexpr (kFormat == LinearWeight::Format::kFp8) {
    uint4 codes = make_uint4(0, 0, 0, 0);
    uint32_t scale = 0;
    if (there) {
      codes = *reinterpret_cast<const uint4*>(data + row * weight.k + column);
      scale = weight.scale[row / 32 * ((weight.k + 31) / 32) + column / 32];
    }
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t two = words[i / 2] >> (i % 2 * 16);
      pairs[i] = scaled_pair<120>(e4m3_bits(two), e4m3_bits(two >> 8), scale);
    }
  } else {
    uint2 codes = make_uint2(0, 0);
    uint32_t scale = 0;
    if (there) {
      codes = *reinterpret_cast<const uint2*>(data + (row * weight.k + column) / 2);
      scale = weight.scale[row * (weight.k / 32) + column / 32];
    }
    const uint32_t words[2] = {codes.x, codes.y};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t two = words[i / 4] >> (i % 4 * 8);
      pairs[i] = scaled_pair<126>(e2m1_bits(two), e2m1_bits(two >> 4), scale);
    }
  }
}

// d += 16 weight rows times 8 rows of x over the piece.  low: the lane's columns of weight row lane / 4, high: of row
// lane / 4 + 8; x: of row lane / 4.
__device__ __forceinline__ void multiply_piece(float (&d)[4], const uint32_t (&low)[8], const uint32_t (&high)[8],
                                               const uint32_t (&x)[8]) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const uint32_t a[4] = {low[2 * step], high[2 * step], low[2 * step + 1], high[2 * step + 1]};
    mma_bf16(d, a, x[2 * step], x[2 * step + 1]);
  }
}

// The same for kTiles groups of 8 rows of x; the weight's rows from first_row on, columns from `column` (the lane's)
// on.
template <LinearWeight::Format kFormat, int kTiles>
__device__ __forceinline__ void multiply_weight_piece(float (&d)[kTiles][4], const LinearWeight& weight,
                                                      int64_t first_row, int64_t column,
                                                      const uint32_t (&x)[kTiles][8]) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 4;
  uint32_t low[8], high[8];
  load_weight<kFormat>(low, weight, first_row + row, column);
  load_weight<kFormat>(high, weight, first_row + row + 8, column);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) multiply_piece(d[tile], low, high, x[tile]);
}

}  // namespace deepinfer::cuda
