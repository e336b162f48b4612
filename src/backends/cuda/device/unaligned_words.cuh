// Words at addresses of any alignment.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// By aligned words: reads the one behind the last word too where `at` is aligned, but no bytes beyond the last word's
// own otherwise.
template <int kWords>
__device__ __forceinline__ void load_unaligned(uint32_t* words, const uint8_t* at) {
  const auto* aligned = reinterpret_cast<const uint32_t*>(at - reinterpret_cast<uintptr_t>(at) % 4);
  const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at) % 4 * 8);
  uint32_t word = aligned[0];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const uint32_t next = aligned[i + 1];
    words[i] = __funnelshift_r(word, next, shift);
    word = next;
  }
}

}  // namespace deepinfer::cuda
