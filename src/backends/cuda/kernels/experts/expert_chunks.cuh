// A chunk of 128 columns (sm90_experts.h) in registers: lane l has columns [32 t, 32 t + 32), t = l % 4, of rows l / 4
// and l / 4 + 8 of the weight and of row l / 4 of x, as pairs of columns 8 j + p and 8 j + p + 4 at [4 j + p].
#pragma once

#include <cstdint>

#include "backends/cuda/device/fp4.cuh"
#include "backends/cuda/device/fp8.cuh"
#include "backends/cuda/device/mma.cuh"
#include "ops/linear.h"

namespace deepinfer::cuda {

constexpr int kChunkPairs = 16;

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}
__device__ __forceinline__ uint2 load_shared_8(uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];\n" : "=r"(v.x), "=r"(v.y) : "r"(address));
  return v;
}
__device__ __forceinline__ uint32_t load_shared_byte(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];\n" : "=r"(v) : "r"(address));
  return v;
}

// Eight neighbouring columns as they lie into pairs.
__device__ __forceinline__ void pair_columns(uint32_t* pairs, const uint4& columns) {
  pairs[0] = __byte_perm(columns.x, columns.z, 0x5410);
  pairs[1] = __byte_perm(columns.x, columns.z, 0x7632);
  pairs[2] = __byte_perm(columns.y, columns.w, 0x5410);
  pairs[3] = __byte_perm(columns.y, columns.w, 0x7632);
}

// d += the 16 rows times x over eight columns a lane.
__device__ __forceinline__ void multiply_eight(float (&d)[4], const uint32_t (&low)[4], const uint32_t (&high)[4],
                                               const uint32_t* x) {
  const uint32_t first[4] = {low[0], high[0], low[1], high[1]};
  mma_bf16(d, first, x[0], x[1]);
  const uint32_t second[4] = {low[2], high[2], low[3], high[3]};
  mma_bf16(d, second, x[2], x[3]);
}

// 2^kBias times a scale, as one factor where that is a bf16 number, as it is for all but absurd scales, else as two.
template <int kBias>
struct ScaleFactors {
  static constexpr uint32_t kMost = 254 - kBias;
  uint32_t first, second;
  bool twice;

  // A lane behind the end of K has zeros.
  __device__ ScaleFactors(uint32_t scale, bool there) {
    const uint32_t within = min(scale, kMost);
    first = there ? (within + kBias) * 0x00800080u : 0;
    second = (scale - within + 127) * 0x00800080u;
    twice = scale > kMost;
  }
};

template <bool kTwice, typename Factors>
__device__ __forceinline__ void apply(uint32_t (&pairs)[4], const Factors& factors) {
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    pairs[p] = times(pairs[p], factors.first);
    if constexpr (kTwice) pairs[p] = times(pairs[p], factors.second);
  }
}

__device__ __forceinline__ uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// low, high: shared addresses of the lane's columns in both rows.
template <bool kTwice>
__device__ __forceinline__ void multiply_fp4_chunk(float (&d)[4], uint32_t low, uint32_t high,
                                                   const ScaleFactors<126>& low_scale,
                                                   const ScaleFactors<126>& high_scale,
                                                   const uint32_t (&x)[kChunkPairs]) {
  const uint4 low_codes = load_shared_16(low), high_codes = load_shared_16(high);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t a = word_of(low_codes, j), b = word_of(high_codes, j);
    uint32_t first[4] = {e2m1_pair<0>(a), e2m1_pair<1>(a), e2m1_pair<2>(a), e2m1_pair<3>(a)};
    uint32_t second[4] = {e2m1_pair<0>(b), e2m1_pair<1>(b), e2m1_pair<2>(b), e2m1_pair<3>(b)};
    apply<kTwice>(first, low_scale);
    apply<kTwice>(second, high_scale);
    multiply_eight(d, first, second, x + 4 * j);
  }
}

template <bool kTwice>
__device__ __forceinline__ void multiply_fp8_chunk(float (&d)[4], uint32_t low, uint32_t high,
                                                   const ScaleFactors<120>& low_scale,
                                                   const ScaleFactors<120>& high_scale,
                                                   const uint32_t (&x)[kChunkPairs]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 low_codes = load_shared_16(low + 16 * half), high_codes = load_shared_16(high + 16 * half);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t a = word_of(low_codes, 2 * i), b = word_of(low_codes, 2 * i + 1);
      const uint32_t e = word_of(high_codes, 2 * i), f = word_of(high_codes, 2 * i + 1);
      uint32_t first[4] = {e4m3_pair<0>(a, b), e4m3_pair<1>(a, b), e4m3_pair<2>(a, b), e4m3_pair<3>(a, b)};
      uint32_t second[4] = {e4m3_pair<0>(e, f), e4m3_pair<1>(e, f), e4m3_pair<2>(e, f), e4m3_pair<3>(e, f)};
      apply<kTwice>(first, low_scale);
      apply<kTwice>(second, high_scale);
      multiply_eight(d, first, second, x + 8 * half + 4 * i);
    }
  }
}

}  // namespace deepinfer::cuda
