// Weight decoding and fp32 lanes for the row products, AVX-512 F, BW, DQ, VL; include lanes.h only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define DI_LANE static inline __attribute__((always_inline))
#define DI_LANE_MEMBER inline __attribute__((always_inline))

namespace deepinfer::cpu::avx512 {

using Vec = __m512;
inline constexpr int kWidth = 16;

DI_LANE Vec zero() {
  return _mm512_setzero_ps();
}
DI_LANE Vec load_vec(const float* p) {
  return _mm512_load_ps(p);
}
DI_LANE void store_vec(float* p, Vec x) {
  _mm512_store_ps(p, x);
}
DI_LANE Vec broadcast(float x) {
  return _mm512_set1_ps(x);
}
DI_LANE Vec times(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
DI_LANE Vec multiply_add(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}

DI_LANE float sum_lanes(Vec a) {
  const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

// out[i] = sum_lanes(v[i]) for four vectors, to the bit: the same tree, its levels shared.
DI_LANE void sum_lanes_of_four(const Vec* v, float* out) {
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xEE));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xEE));
  const __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0xEE));
  const __m512 one = _mm512_add_ps(two, _mm512_movehdup_ps(two));
  const __m512i first = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, one)));
}

// 32 bf16 as two vectors: the even ones, the odd ones.
DI_LANE void widen_pairs(__m512i pairs, Vec* out) {
  out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  out[1] = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}
DI_LANE void widen_pairs(const uint16_t* p, Vec* out) {
  widen_pairs(_mm512_loadu_si512(p), out);
}

DI_LANE Vec widen_half(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
}

DI_LANE __m512i load_pairs(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}
// One of the two vectors of widen_pairs.
template <int kIndex>
DI_LANE Vec widen_half_of_pairs(__m512i pairs) {
  if constexpr (kIndex == 0) return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}

// 64 e4m3 codes as four vectors of value * 2^-8: bytes 0 2 .. 30, 1 3 .. 31, 32 34 .. 62, 33 35 .. 63.  A code's bits
// shifted into place are an fp16 with the same fraction and 2^8 of the exponent to spare, subnormals included.
inline constexpr int kFp8Step = 64;
struct Fp8Step {
  static constexpr int kVectors = 4;
  alignas(64) uint16_t even[32], odd[32];

  DI_LANE_MEMBER void decode(__m512i codes) {
    const __m512i mask = _mm512_set1_epi16(static_cast<int16_t>(0xBF80));
    const __m512i e = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 1), mask);
    const __m512i o = _mm512_and_si512(_mm512_srai_epi16(codes, 1), mask);
    _mm512_store_si512(even, e);
    _mm512_store_si512(odd, o);
    __asm__("" : "+m"(even), "+m"(odd));
  }
  DI_LANE_MEMBER void read(const uint8_t* p, const uint8_t*) { decode(_mm512_loadu_si512(p)); }
  template <int kIndex>
  DI_LANE_MEMBER Vec vector() const {
    return widen_half((kIndex % 2 == 0 ? even : odd) + kIndex / 2 * kWidth);
  }
};
// 32 columns are left: two vectors.
struct Fp8HalfStep : Fp8Step {
  static constexpr int kVectors = 2;
  DI_LANE_MEMBER void read(const uint8_t* p, const uint8_t*) {
    decode(_mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
  }
};

// 128 e2m1 codes of 64 bytes as eight vectors, not scaled: vector j holds the columns 8d + j of the dwords d, so that
// four lanes are one group of 32.  VPERMPS reads only the lower four bits of an index.
inline constexpr int kFp4Step = 128;
inline constexpr bool kFp4ScaledSteps = true;
DI_LANE Vec fp4_values(__m512i codes) {
  const Vec table = _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
  return _mm512_permutexvar_ps(codes, table);
}
// The vectors 2 pair and 2 pair + 1.  Reads pair bytes behind the step: a load takes the place of a shift, for which
// the vector ports have no time.
DI_LANE void decode_fp4_pair(const uint8_t* p, int pair, Vec* out) {
  const __m512i codes = _mm512_loadu_si512(p + pair);
  out[0] = fp4_values(codes);
  out[1] = fp4_values(_mm512_srli_epi32(codes, 4));
}
DI_LANE void decode_fp4(const uint8_t* p, Vec* out) {
  for (int pair = 0; pair < 4; ++pair) decode_fp4_pair(p, pair, out + 2 * pair);
}
// 2^(scale - 127) of a step's four groups, each in the lanes of its group; 2^-127 counts as 0, the code 255 as
// infinity.
DI_LANE Vec fp4_factors(uint32_t scales) {
  const __m512i spread =
      _mm512_set_epi32(0x03FFFFFF, 0x03FFFFFF, 0x03FFFFFF, 0x03FFFFFF, 0x02FFFFFF, 0x02FFFFFF, 0x02FFFFFF, 0x02FFFFFF,
                       0x01FFFFFF, 0x01FFFFFF, 0x01FFFFFF, 0x01FFFFFF, 0x00FFFFFF, 0x00FFFFFF, 0x00FFFFFF, 0x00FFFFFF);
  const __m512i high = _mm512_shuffle_epi8(_mm512_set1_epi32(static_cast<int>(scales)), spread);
  return _mm512_castsi512_ps(_mm512_srli_epi32(high, 1));
}
DI_LANE Vec fp4_factors(const uint8_t* scale) {
  uint32_t scales;
  __builtin_memcpy(&scales, scale, 4);
  return fp4_factors(scales);
}
// One to four groups; reads nothing behind them.
DI_LANE __m512i load_fp4_groups(const uint8_t* p, int64_t groups) {
  return _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << (4 * groups)) - 1), p);
}
template <int kPair>
DI_LANE void decode_fp4_pair(__m512i codes, Vec* out) {
  out[0] = fp4_values(kPair == 0 ? codes : _mm512_srli_epi32(codes, 8 * kPair));
  out[1] = fp4_values(_mm512_srli_epi32(codes, 8 * kPair + 4));
}
// The last one to four groups of a row.
DI_LANE void decode_fp4_last(const uint8_t* p, int64_t groups, Vec* out) {
  const __m512i codes = load_fp4_groups(p, groups);
  decode_fp4_pair<0>(codes, out);
  decode_fp4_pair<1>(codes, out + 2);
  decode_fp4_pair<2>(codes, out + 4);
  decode_fp4_pair<3>(codes, out + 6);
}
DI_LANE Vec fp4_factors_last(const uint8_t* scale, int64_t groups) {
  uint32_t scales = 0;
  for (int64_t g = 0; g < groups; ++g) scales |= static_cast<uint32_t>(scale[g]) << (8 * g);
  return fp4_factors(scales);
}

}  // namespace deepinfer::cpu::avx512
