// What a lane holds of a piece of 64 columns on the SM90 path: of two rows of a weight, 8 apart, the columns
// [16 t, 16 t + 16), t = lane % 4, as they are stored; and the operands that they become.
#pragma once

#include <cstdint>

#include "backends/cuda/device/async_copy.cuh"
#include "backends/cuda/device/fp8.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "ops/linear.h"

namespace deepinfer::cuda {

using Format = LinearWeight::Format;

template <Format kFormat>
struct Piece {
  static constexpr int kColumnBytes = kFormat == Format::kFp8 ? 1 : 2;
  static constexpr int kQuads = kColumnBytes;
  static constexpr int kWarpBytes = 2 * kQuads * 32 * 16;  // in shared memory
  uint4 low[kQuads], high[kQuads];
};

// A warp's way of a piece through shared memory.  place: of the warp's piece, in FP8 plus lane * 16 (place_in_warp); low
// and high: the lane's 16 columns.  In FP8 every lane copies and reads the same 16 bytes.  In BF16 a copy by the four
// lanes of a row has 64 bytes in one piece, and the chunks of 16 bytes of odd rows are exchanged in pairs, so that reads
// meet no bank twice.
template <Format kFormat>
__device__ __forceinline__ uint32_t place_in_warp() {
  return kFormat == Format::kFp8 ? threadIdx.x % 32 * 16 : 0;
}
template <Format kFormat>
__device__ __forceinline__ void ask_for_piece(uint32_t place, const uint8_t* low, const uint8_t* high) {
  if constexpr (kFormat == Format::kFp8) {
    async_copy_16(place, low);
    async_copy_16(place + 512, high);
  } else {
    __syncwarp();  // everybody has read what was there
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane / 4, own = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t to = place + row * 128 + ((own + 4 * i) ^ (row & 1)) * 16;
      async_copy_16(to, low + (4 * i - own) * 16);
      async_copy_16(to + 1024, high + (4 * i - own) * 16);
    }
  }
}
template <Format kFormat>
__device__ __forceinline__ void get_piece(Piece<kFormat>& piece, uint32_t place) {
  if constexpr (kFormat == Format::kFp8) {
    piece.low[0] = load_shared(place);
    piece.high[0] = load_shared(place + 512);
  } else {
    __syncwarp();  // everybody's copies are there
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane / 4, own = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t from = place + row * 128 + ((2 * own + i) ^ (row & 1)) * 16;
      piece.low[i] = load_shared(from);
      piece.high[i] = load_shared(from + 1024);
    }
  }
}

// Scales of a warp's 16 outputs by up to 16 pieces: lane i has that of the block i of 32 columns.
struct Scales {
  uint32_t factor = 0;  // 2^120 times the scale
  uint32_t scale = 0;
  bool large = false;  // some are too large for one exact product
  int half = 0;        // of a piece, that the lane's columns lie in
};
__device__ __forceinline__ Scales scales_of_codes(uint32_t code) {
  return {e8m0_as_bf16_pair(code), code, __any_sync(~0u, code > kHighestFactor) != 0,
          static_cast<int>(kept(threadIdx.x % 4 / 2))};
}

__device__ __forceinline__ uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// 2^120 times the scale of the lane's columns of the piece `index` of these.
template <Format kFormat>
__device__ __forceinline__ uint32_t factor_of(const Scales& scales, int index) {
  return kFormat == Format::kFp8 ? __shfl_sync(~0u, scales.factor, index * 2 + scales.half) : 0;
}

// The word in a register of its own, as long as the compiler does not know that `nothing` is 0.
__device__ __forceinline__ uint32_t copied(uint32_t word, uint32_t nothing) {
  uint32_t copy;
  asm volatile("or.b32 %0, %1, %2;\n" : "=r"(copy) : "r"(word), "r"(nothing));
  return copy;
}

// The operand of a step of a piece, the one of these `index` of the scales.  factor: in BF16 0; where the compiler does not
// know that, the operand has registers of its own beside those of the piece.
template <Format kFormat>
__device__ __forceinline__ void fragment(uint32_t (&a)[4], const Piece<kFormat>& piece, int step, const Scales& scales,
                                         uint32_t factor, int index) {
  if constexpr (kFormat == Format::kFp8) {
    const uint32_t low = word_of(piece.low[0], step), high = word_of(piece.high[0], step);
    a[0] = times(even_e4m3_as_bf16(low), factor);
    a[1] = times(even_e4m3_as_bf16(high), factor);
    a[2] = times(odd_e4m3_as_bf16(low), factor);
    a[3] = times(odd_e4m3_as_bf16(high), factor);
    if (scales.large) {
      const uint32_t scale = __shfl_sync(~0u, scales.scale, index * 2 + scales.half);
      const uint32_t rest = excess_scale(max(scale, kHighestFactor));
#pragma unroll
      for (uint32_t& pair : a) pair = times(pair, rest);
    }
  } else {
    a[0] = copied(word_of(piece.low[step / 2], step % 2 * 2), factor);
    a[1] = copied(word_of(piece.high[step / 2], step % 2 * 2), factor);
    a[2] = copied(word_of(piece.low[step / 2], step % 2 * 2 + 1), factor);
    a[3] = copied(word_of(piece.high[step / 2], step % 2 * 2 + 1), factor);
  }
}

// The operands of the four steps of a piece.
template <Format kFormat>
__device__ __forceinline__ void fragments(uint32_t (&a)[4][4], const Piece<kFormat>& piece, const Scales& scales,
                                          int index) {
  const uint32_t factor = factor_of<kFormat>(scales, index);
#pragma unroll
  for (int step = 0; step < 4; ++step) fragment<kFormat>(a[step], piece, step, scales, factor, index);
}

// x as the fragments of the format pair it.
template <Format kFormat>
__device__ __forceinline__ uint4 paired(const uint4& v) {
  if constexpr (kFormat != Format::kFp8) return v;
  return make_uint4(__byte_perm(v.x, v.y, 0x5410), __byte_perm(v.x, v.y, 0x7632), __byte_perm(v.z, v.w, 0x5410),
                    __byte_perm(v.z, v.w, 0x7632));
}

}  // namespace deepinfer::cuda
