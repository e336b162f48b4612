// Sixteen channels of a cached record, a group of compressed ones or half a group of window ones: as they are stored,
// and as bf16 numbers times 2^-8.  That factor leaves room for every scale, so that one product with a scale does it,
// and as a power of two it is taken back exactly where the sums end.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/fp4.cuh"
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

// Pairs hold channels i and i + 4 of each eight.
__device__ __forceinline__ void decode_stored(uint32_t (&pairs)[8], const StoredChannels& stored, bool compressed) {
  if (compressed) {
    const uint32_t bits = __float_as_uint(e4m3_value(stored.scale) * 0x1p118f);
    const uint32_t scale = __byte_perm(bits, bits, 0x3232);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      pairs[4 * i] = times(e2m1_pair<0>(stored.words[i]), scale);
      pairs[4 * i + 1] = times(e2m1_pair<1>(stored.words[i]), scale);
      pairs[4 * i + 2] = times(e2m1_pair<2>(stored.words[i]), scale);
      pairs[4 * i + 3] = times(e2m1_pair<3>(stored.words[i]), scale);
    }
  } else {
    constexpr uint32_t kMost = 142;  // the largest code whose scale fits
    const uint32_t code = min(stored.scale, kMost), scale = (code + 112) * 0x00800080u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t first = stored.words[2 * i], second = stored.words[2 * i + 1];
      pairs[4 * i] = times(e4m3_pair<0>(first, second), scale);
      pairs[4 * i + 1] = times(e4m3_pair<1>(first, second), scale);
      pairs[4 * i + 2] = times(e4m3_pair<2>(first, second), scale);
      pairs[4 * i + 3] = times(e4m3_pair<3>(first, second), scale);
    }
    if (stored.scale > kMost) {
      const uint32_t more = (stored.scale - kMost + 127) * 0x00800080u;
#pragma unroll
      for (uint32_t& pair : pairs) pair = times(pair, more);
    }
  }
}

// The same order for eight channels of bf16.
__device__ __forceinline__ uint4 reordered(uint4 channels) {
  return {__byte_perm(channels.x, channels.z, 0x5410), __byte_perm(channels.x, channels.z, 0x7632),
          __byte_perm(channels.y, channels.w, 0x5410), __byte_perm(channels.y, channels.w, 0x7632)};
}

}  // namespace deepinfer::cuda
