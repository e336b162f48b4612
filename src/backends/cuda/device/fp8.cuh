// e4m3 bytes to bf16 pairs: sign, exponent and mantissa are moved into place, which gives the value times 2^-120
// (subnormal numbers too), and one exact product with 2^120 times the scale does the rest.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// Of a word's 16-bit lanes, the upper or the lower byte.  Times 2^-120.
__device__ __forceinline__ uint32_t upper_e4m3_as_bf16(uint32_t word) {
  return (word & 0x80008000u) | ((word >> 4) & 0x07f007f0u);
}
__device__ __forceinline__ uint32_t lower_e4m3_as_bf16(uint32_t word) {
  return ((word << 8) & 0x80008000u) | ((word << 4) & 0x07f007f0u);
}
// 2^120 times an e8m0 scale of at most 2^7, twice.
__device__ __forceinline__ uint32_t e8m0_as_bf16_pair(uint32_t scale) {
  return (scale + 120) * 0x00800080u;
}

// bf16 pairs.
__device__ __forceinline__ uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;\n" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace deepinfer::cuda
