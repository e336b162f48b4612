// Sixteen channels of a cached record, a group of compressed ones or half a group of window ones: as they are stored,
// and as bf16 numbers times 2^-8.  That factor leaves room for every scale, so that one product with a scale does it,
// and as a power of two it is taken back exactly where the sums end.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/fp8.cuh"
#include "backends/cuda/device/unaligned_words.cuh"

namespace deepinfer::cuda {

constexpr float kStoredFactor = 256;  // a value is this times its bf16 number

struct StoredChannels {
  uint32_t words[4];  // of compressed records the first two
  uint32_t scale;     // code
};

// Of a record of kHeadDim channels, from `channel` on, a multiple of 16.  aligned: to 16 bytes.  The order relative to
// fences is kept.
template <uint32_t kHeadDim>
__device__ __forceinline__ void load_stored(StoredChannels& stored, const uint8_t* record, bool compressed, bool aligned,
                                            uint32_t channel) {
  uint32_t* words = stored.words;
  const uint8_t* at = record + (compressed ? channel / 2 : channel);
  if (!aligned) {
    if (compressed) {
      load_unaligned<2>(words, at);
    } else {
      load_unaligned<4>(words, at);  // the scales behind the last channels make up for what is read beyond them
    }
  } else if (compressed) {
    asm volatile("ld.global.v2.b32 {%0, %1}, [%2];\n" : "=r"(words[0]), "=r"(words[1]) : "l"(at));
  } else {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(at));
  }
  at = record + (compressed ? kHeadDim / 2 + channel / kMainKvGroup : kHeadDim + channel / kFp8Group);
  asm volatile("ld.global.u8 %0, [%1];\n" : "=r"(stored.scale) : "l"(at));
}

// Codes are moved into place, which gives e2m1 values times 2^-126 and e4m3 values times 2^-120, subnormal numbers too.
__device__ __forceinline__ void decode_stored(uint32_t (&pairs)[8], const StoredChannels& stored, bool compressed) {
  if (compressed) {
    const uint32_t bits = __float_as_uint(e4m3_value(stored.scale) * 0x1p118f);
    const uint32_t scale = __byte_perm(bits, bits, 0x3232);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = stored.words[i / 4], odd = i % 4 * 0x11;
      // The first code of a byte into the top of the lower half, the second into the top of the upper one.
      const uint32_t codes = __byte_perm(word << 4, word, odd | (odd + 0x44) << 8);
      pairs[i] = times((codes & 0x80008000u) | ((codes >> 6) & 0x01c001c0u), scale);
    }
  } else {
    constexpr uint32_t kMost = 142;  // the largest code whose scale fits
    const uint32_t code = min(stored.scale, kMost), scale = (code + 112) * 0x00800080u;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t codes = __byte_perm(stored.words[i / 2], 0, i % 2 == 0 ? 0x1404 : 0x3424);
      pairs[i] = times((codes & 0x80008000u) | ((codes >> 4) & 0x07f007f0u), scale);
    }
    if (stored.scale > kMost) {
      const uint32_t more = (stored.scale - kMost + 127) * 0x00800080u;
#pragma unroll
      for (uint32_t& pair : pairs) pair = times(pair, more);
    }
  }
}

}  // namespace deepinfer::cuda
