// Weight decoding and fp32 lanes for the row products, AVX2; include lanes.h only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define DI_LANE static inline __attribute__((always_inline))
#define DI_LANE_MEMBER inline __attribute__((always_inline))

namespace deepinfer::cpu::avx2 {

using Vec = __m256;
inline constexpr int kWidth = 8;

DI_LANE Vec zero() {
  return _mm256_setzero_ps();
}
DI_LANE Vec load_vec(const float* p) {
  return _mm256_load_ps(p);
}
DI_LANE void store_vec(float* p, Vec x) {
  _mm256_store_ps(p, x);
}
DI_LANE Vec broadcast(float x) {
  return _mm256_set1_ps(x);
}
DI_LANE Vec times(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
DI_LANE Vec multiply_add(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}

DI_LANE float sum_lanes(Vec a) {
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

// out[i] = sum_lanes(v[i]) for four vectors, to the bit: the same tree, its levels shared.  a + b is b + a, so that of
// the two arguments of a sum one can be a blend, for which every port is good.
DI_LANE void sum_lanes_of_four(const Vec* v, float* out) {
  const __m256 ab = _mm256_add_ps(_mm256_blend_ps(v[0], v[1], 0xF0), _mm256_permute2f128_ps(v[0], v[1], 0x21));
  const __m256 cd = _mm256_add_ps(_mm256_blend_ps(v[2], v[3], 0xF0), _mm256_permute2f128_ps(v[2], v[3], 0x21));
  const __m256 two = _mm256_add_ps(_mm256_blend_ps(ab, cd, 0xCC), _mm256_shuffle_ps(ab, cd, 0x4E));  // a c, b d
  const __m256 one = _mm256_add_ps(two, _mm256_movehdup_ps(two));
  const __m128 odd = _mm_moveldup_ps(_mm256_extractf128_ps(one, 1));
  _mm_storeu_ps(out, _mm_blend_ps(_mm256_castps256_ps128(one), odd, 0b1010));
}

// 16 bf16 as two vectors: the even ones, the odd ones.
DI_LANE void widen_pairs(__m256i pairs, Vec* out) {
  out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  out[1] = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
}
DI_LANE void widen_pairs(const uint16_t* p, Vec* out) {
  widen_pairs(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), out);
}

// kWidth fp32 from as many fp16 in memory.  The barrier keeps the compiler from replacing the load by a shuffle of the
// register just stored: conversion from memory leaves the shuffle port free.
DI_LANE Vec widen_half(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}

DI_LANE __m256i load_pairs(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
// One of the two vectors of widen_pairs.
template <int kIndex>
DI_LANE Vec widen_half_of_pairs(__m256i pairs) {
  if constexpr (kIndex == 0) return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
}

// 32 e4m3 codes as four vectors of value * 2^-8: bytes 0 2 .. 14, 1 3 .. 15, 16 18 .. 30, 17 19 .. 31.  A code's bits
// shifted into place are an fp16 with the same fraction and 2^8 of the exponent to spare, subnormals included.
inline constexpr int kFp8Step = 32;
struct Fp8Step {
  static constexpr int kVectors = 4;
  alignas(32) uint16_t even[16], odd[16];

  DI_LANE_MEMBER void read(const uint8_t* p, const uint8_t*) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(0xBF80));
    const __m256i low_to_high = _mm256_setr_epi8(-1, 0, -1, 2, -1, 4, -1, 6, -1, 8, -1, 10, -1, 12, -1, 14, -1, 0, -1,
                                                 2, -1, 4, -1, 6, -1, 8, -1, 10, -1, 12, -1, 14);
    const __m256i e = _mm256_and_si256(_mm256_srai_epi16(_mm256_shuffle_epi8(codes, low_to_high), 1), mask);
    const __m256i o = _mm256_and_si256(_mm256_srai_epi16(codes, 1), mask);
    _mm256_store_si256(reinterpret_cast<__m256i*>(even), e);
    _mm256_store_si256(reinterpret_cast<__m256i*>(odd), o);
    __asm__("" : "+m"(even), "+m"(odd));
  }
  template <int kIndex>
  DI_LANE_MEMBER Vec vector() const {
    return widen_half((kIndex % 2 == 0 ? even : odd) + kIndex / 2 * kWidth);
  }
};
using Fp8HalfStep = Fp8Step;  // columns left are a multiple of 32: never less than a step

// 64 e2m1 codes of 32 bytes and their two scales as eight vectors, scaled.  Byte b of a group holds the columns 2b and
// 2b + 1; vector order: pack_fp4 in row_pack.h.  The lanes' halves are the two groups.  One table of the two upper
// bytes of each value per scale: exact, and neither zero nor subnormal values need a case of their own.
inline constexpr int kFp4Step = 64;
inline constexpr bool kFp4ScaledSteps = false;
struct Fp4Table {
  alignas(16) uint8_t high[16];
  uint8_t low[16];
};
extern const Fp4Table* const kFp4Tables;  // [256], by scale

DI_LANE __m256i table_pair(const uint8_t* first, const uint8_t* second) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(first))),
                                 _mm_load_si128(reinterpret_cast<const __m128i*>(second)), 1);
}
struct Fp4Step {
  static constexpr int kVectors = 8;
  __m256i pairs[4];

  DI_LANE_MEMBER void decode(__m256i codes, uint8_t scale0, uint8_t scale1) {
    const __m256i nibble = _mm256_set1_epi8(15);
    const Fp4Table &t0 = kFp4Tables[scale0], &t1 = kFp4Tables[scale1];
    const __m256i high = table_pair(t0.high, t1.high), low = table_pair(t0.low, t1.low);
    const __m256i even = _mm256_and_si256(codes, nibble);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
    const __m256i even_low = _mm256_shuffle_epi8(low, even), even_high = _mm256_shuffle_epi8(high, even);
    const __m256i odd_low = _mm256_shuffle_epi8(low, odd), odd_high = _mm256_shuffle_epi8(high, odd);
    pairs[0] = _mm256_unpacklo_epi8(even_low, even_high);
    pairs[1] = _mm256_unpacklo_epi8(odd_low, odd_high);
    pairs[2] = _mm256_unpackhi_epi8(even_low, even_high);
    pairs[3] = _mm256_unpackhi_epi8(odd_low, odd_high);
  }
  DI_LANE_MEMBER void read(const uint8_t* p, const uint8_t* scale) {
    decode(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), scale[0], scale[1]);
  }
  template <int kIndex>
  DI_LANE_MEMBER Vec vector() const {
    return widen_half_of_pairs<kIndex % 2>(pairs[kIndex / 2]);
  }
};
// One group: the other half decodes to zero.
struct Fp4HalfStep : Fp4Step {
  DI_LANE_MEMBER void read(const uint8_t* p, const uint8_t* scale) {
    decode(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), scale[0], scale[0]);
  }
};

// What is left of the scales after decoding.
DI_LANE Vec fp4_factors(const uint8_t*) {
  return broadcast(1);
}
DI_LANE Vec fp4_factors_last(const uint8_t*, int64_t) {
  return broadcast(1);
}

}  // namespace deepinfer::cpu::avx2
