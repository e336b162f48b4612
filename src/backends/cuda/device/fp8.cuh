// e4m3 to bf16 pairs: sign, exponent and mantissa are moved into place, which gives the value times 2^-120 (subnormal
// numbers too), and one exact product with 2^120 times the scale does the rest.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// Of a word as layout/strip_order.h has it: the pair of the first columns, and of those 8 further.  Times 2^-120.
__device__ __forceinline__ uint32_t first_e4m3_as_bf16(uint32_t word) { return word & 0x87f087f0u; }
__device__ __forceinline__ uint32_t second_e4m3_as_bf16(uint32_t word) {
  return ((word << 4) & 0x80f080f0u) | ((word >> 4) & 0x07000700u);
}
// 2^120 times an e8m0 scale of at most 2^7, twice.
__device__ __forceinline__ uint32_t e8m0_as_bf16_pair(uint32_t scale) { return (scale + 120) * 0x00800080u; }

// bf16 pairs.
__device__ __forceinline__ uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;\n" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace deepinfer::cuda
