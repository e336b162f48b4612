// FP8 rounding of activations (specs/v41-model.md 6.1), on the bf16 bits themselves.
//
// The scale is a power of two, so rounding x / scale to e4m3 is rounding the seven mantissa bits of x to three,
// wherever x / scale is a normal e4m3 number: sixteen-bit integer work.  Nothing is clamped, since the scale is at
// least largest / 448.  A group with smaller values (one in some hundred) takes the way through fp32.
#include "backends/cpu/steps/fp8_group.h"
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

// The largest of eight sixteen-bit magnitudes below 2^15.
DI_INLINE uint32_t largest_of(__m128i magnitudes) {
  const __m128i ones = _mm_set1_epi16(-1);
  const __m128i smallest = _mm_minpos_epu16(_mm_xor_si128(magnitudes, ones));
  return ~static_cast<uint32_t>(_mm_cvtsi128_si32(smallest)) & 0xFFFF;
}

#if defined(__AVX512F__)
struct Group {
  __m512i v;
};
DI_INLINE Group load_group(const uint16_t* x) {
  return {_mm512_loadu_si512(x)};
}
DI_INLINE uint32_t largest_magnitude(Group x) {
  const __m512i magnitude = _mm512_and_si512(x.v, _mm512_set1_epi16(0x7FFF));
  const __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(magnitude), _mm512_extracti64x4_epi64(magnitude, 1));
  return largest_of(_mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}
// Some value is not 0 and below `least`.
DI_INLINE bool has_small(Group x, uint32_t least) {
  const __m512i magnitude = _mm512_and_si512(x.v, _mm512_set1_epi16(0x7FFF));
  return _mm512_cmplt_epu16_mask(_mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)),
                                 _mm512_set1_epi16(static_cast<int16_t>(least - 1))) != 0;
}
DI_INLINE void store_rounded(uint16_t* y, Group x) {
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(x.v, 4), _mm512_set1_epi16(1));
  const __m512i sum = _mm512_add_epi16(x.v, _mm512_add_epi16(odd, _mm512_set1_epi16(7)));
  _mm512_storeu_si512(y, _mm512_and_si512(sum, _mm512_set1_epi16(~15)));  // a carry stops at infinity, below the sign
}
#else
struct Group {
  __m256i v[2];
};
DI_INLINE Group load_group(const uint16_t* x) {
  return {{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)),
           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 16))}};
}
DI_INLINE uint32_t largest_magnitude(Group x) {
  const __m256i mask = _mm256_set1_epi16(0x7FFF);
  const __m256i half = _mm256_max_epu16(_mm256_and_si256(x.v[0], mask), _mm256_and_si256(x.v[1], mask));
  return largest_of(_mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}
// Some value is not 0 and below `least`: magnitude - 1, unsigned, equals its minimum with least - 2.
DI_INLINE bool has_small(Group x, uint32_t least) {
  const __m256i mask = _mm256_set1_epi16(0x7FFF), one = _mm256_set1_epi16(1);
  const __m256i limit = _mm256_set1_epi16(static_cast<int16_t>(least - 2));
  __m256i small = _mm256_setzero_si256();
  for (const __m256i part : x.v) {
    const __m256i below = _mm256_sub_epi16(_mm256_and_si256(part, mask), one);
    small = _mm256_or_si256(small, _mm256_cmpeq_epi16(_mm256_min_epu16(below, limit), below));
  }
  return _mm256_testz_si256(small, small) == 0;
}
DI_INLINE void store_rounded(uint16_t* y, Group x) {
  for (int i = 0; i < 2; ++i) {
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(x.v[i], 4), _mm256_set1_epi16(1));
    const __m256i sum = _mm256_add_epi16(x.v[i], _mm256_add_epi16(odd, _mm256_set1_epi16(7)));
    const __m256i rounded = _mm256_and_si256(sum, _mm256_set1_epi16(~15));  // a carry stops at infinity, below the sign
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + 16 * i), rounded);
  }
}
#endif

}  // namespace

void quantize_activation(const uint16_t* x, int64_t k, uint16_t* y) {
  for (int64_t i = 0; i < k; i += 32) {
    const Group group = load_group(x + i);
    const uint32_t scale = fp8_scale(float_of_bits(largest_magnitude(group) << 16));
    // 2^-6 times the scale, the smallest normal number, in bf16 bits; scale is at least 105.
    if (has_small(group, (scale - 6) << 7)) [[unlikely]] {
      round_fp8_group(load_bf16(x + i), load_bf16(x + i + kLanes), y + i);
    } else {
      store_rounded(y + i, group);
    }
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
