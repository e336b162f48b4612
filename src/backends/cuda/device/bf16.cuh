// bf16 and fp32, with the bits of tensor/dtype.h.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace deepinfer::cuda {

__device__ __forceinline__ float widen(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

// To nearest even; a NaN stays one.
__device__ __forceinline__ bf16 round_to_bf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// Two values at once, the first in the lower half.  A NaN stays one, by other bits.
__device__ __forceinline__ uint32_t round_to_bf16_pair(float first, float second) {
#ifdef __CUDA_ARCH__
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return round_to_bf16(first).bits | static_cast<uint32_t>(round_to_bf16(second).bits) << 16;
#endif
}

// Two values that are bf16 numbers already, the first in the lower half.
__device__ __forceinline__ uint32_t pair_of(float first, float second) {
  return (__float_as_uint(first) >> 16) | (__float_as_uint(second) & 0xffff0000u);
}

}  // namespace deepinfer::cuda
