// e2m1 to bf16 pairs.  As with e4m3 (fp8.cuh), sign, exponent and mantissa are moved into place, which gives the value
// times 2^-126, and one exact product with 2^126 times the scale does the rest.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// Pair kPair, 0 to 3, of a word of 8 codes: codes kPair and kPair + 4.  Times 2^-126.  A product with two powers of two
// copies a code to both its places at once, on another pipe than the logical operations, of which there are many.
template <int kPair>
__device__ __forceinline__ uint32_t e2m1_pair(uint32_t word) {
  const uint32_t codes = kPair < 2 ? word : word >> 8;
  const uint32_t copies = kPair % 2 == 0 ? (codes & 0x000f000fu) * 0x1040u : (codes & 0x00f000f0u) * 0x0104u;
  return copies & 0x81c081c0u;
}

// Pair kPair of the e4m3 codes of two words: byte kPair of each.  Times 2^-120.
template <int kPair>
__device__ __forceinline__ uint32_t e4m3_pair(uint32_t first, uint32_t second) {
  const uint32_t high = __byte_perm(first, second, kPair | kPair << 4 | (kPair + 4) << 8 | (kPair + 4) << 12);
  return (high & 0x80008000u) | ((high >> 4) & 0x07f007f0u);
}

}  // namespace deepinfer::cuda
