// Four e4m3 codes of a word to two bf16 pairs: sign, exponent and mantissa are moved into place, which gives the values
// times 2^-120 (subnormal numbers too), and one exact product with 2^120 times the scale does the rest.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// Bytes 0 and 2 of the word, and bytes 1 and 3: neighbours in a pair would cost two instructions more.
__device__ __forceinline__ uint32_t even_e4m3_as_bf16(uint32_t word) {
  return ((word << 8) & 0x80008000u) | ((word << 4) & 0x07f007f0u);
}
__device__ __forceinline__ uint32_t odd_e4m3_as_bf16(uint32_t word) {
  return (word & 0x80008000u) | ((word >> 4) & 0x07f007f0u);
}

constexpr uint32_t kHighestFactor = 134;  // 2^7, with 2^120 the largest power of two of bf16

// 2^120 times an e8m0 scale, twice; of scales above 2^7 the part up to there, excess_scale is the rest.
__device__ __forceinline__ uint32_t e8m0_as_bf16_pair(uint32_t scale) {
  return (min(scale, kHighestFactor) + 120) * 0x00800080u;
}
__device__ __forceinline__ uint32_t excess_scale(uint32_t scale) { return (scale - kHighestFactor + 127) * 0x00800080u; }

// bf16 pairs.
__device__ __forceinline__ uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;\n" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace deepinfer::cuda
