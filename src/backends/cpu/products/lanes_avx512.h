// Weight decoding and fp32 lanes for the row products, AVX-512 F, BW, DQ, VL; include lanes.h only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define DI_LANE static inline __attribute__((always_inline))

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

// 64 e4m3 codes as four vectors of value * 2^-8: bytes 0 2 .. 30, 1 3 .. 31, 32 34 .. 62, 33 35 .. 63.  A code's bits
// shifted into place are an fp16 with the same fraction and 2^8 of the exponent to spare, subnormals included.
inline constexpr int kFp8Step = 64;
DI_LANE void decode_fp8(__m512i codes, Vec* out) {
  alignas(64) uint16_t even[32], odd[32];
  const __m512i mask = _mm512_set1_epi16(static_cast<int16_t>(0xBF80));
  const __m512i e = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 1), mask);
  const __m512i o = _mm512_and_si512(_mm512_srai_epi16(codes, 1), mask);
  _mm512_store_si512(even, e);
  _mm512_store_si512(odd, o);
  __asm__("" : "+m"(even), "+m"(odd));
  out[0] = widen_half(even);
  out[1] = widen_half(odd);
  out[2] = widen_half(even + 16);
  out[3] = widen_half(odd + 16);
}
DI_LANE void decode_fp8(const uint8_t* p, Vec* out) {
  decode_fp8(_mm512_loadu_si512(p), out);
}
// 32 columns are left: two vectors.
DI_LANE void decode_fp8_tail(const uint8_t* p, Vec* out) {
  Vec all[4];
  decode_fp8(_mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), all);
  out[0] = all[0];
  out[1] = all[1];
}

// 128 e2m1 codes of 64 bytes and their four scales as eight vectors, scaled.  Word w holds the columns 4w .. 4w + 3;
// vector order: pack_fp4 in row_pack.h.  A 128-bit lane of words is one group.  The table's values carry 2^126 more
// than they mean and the group subtracts (253 - scale) from the exponent, saturating: zeros stay zero without a mask.
// Scales below 2^-125 count as 2^-125.
inline constexpr int kFp4Step = 128;
DI_LANE void decode_fp4(__m512i codes, uint32_t scales, Vec* out) {
  const __m512i table = _mm512_broadcast_i64x4(
      _mm256_setr_epi16(0, 0x3F00 + 0x3F00, 0x3F80 + 0x3F00, 0x3FC0 + 0x3F00, 0x4000 + 0x3F00, 0x4040 + 0x3F00,
                        0x4080 + 0x3F00, 0x40C0 + 0x3F00, 0, static_cast<int16_t>(0xBF00 + 0x3F00),
                        static_cast<int16_t>(0xBF80 + 0x3F00), static_cast<int16_t>(0xBFC0 + 0x3F00),
                        static_cast<int16_t>(0xC000 + 0x3F00), static_cast<int16_t>(0xC040 + 0x3F00),
                        static_cast<int16_t>(0xC080 + 0x3F00), static_cast<int16_t>(0xC0C0 + 0x3F00)));
  // Byte g of the scales into the upper byte of each word of lane g.
  const __m512i spread =
      _mm512_set_epi64(0x0380038003800380, 0x0380038003800380, 0x0280028002800280, 0x0280028002800280,
                       0x0180018001800180, 0x0180018001800180, 0x0080008000800080, 0x0080008000800080);
  const __m512i exponents =
      _mm512_srli_epi16(_mm512_shuffle_epi8(_mm512_set1_epi32(static_cast<int>(scales)), spread), 1);
  const __m512i lower =
      _mm512_min_epu16(_mm512_sub_epi16(_mm512_set1_epi16(253 << 7), exponents), _mm512_set1_epi16(251 << 7));
  for (int j = 0; j < 4; ++j) {
    const __m512i values = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4 * j), table);
    widen_pairs(_mm512_subs_epu16(values, lower), out + 2 * j);
  }
}
DI_LANE void decode_fp4(const uint8_t* p, const uint8_t* scale, Vec* out) {
  uint32_t scales;
  __builtin_memcpy(&scales, scale, 4);
  decode_fp4(_mm512_loadu_si512(p), scales, out);
}
// One to three groups are left.
DI_LANE void decode_fp4_tail(const uint8_t* p, const uint8_t* scale, int64_t groups, Vec* out) {
  uint32_t scales = 0;
  for (int64_t g = 0; g < groups; ++g) scales |= static_cast<uint32_t>(scale[g]) << (8 * g);
  decode_fp4(_mm512_maskz_loadu_epi32((__mmask16{1} << (4 * groups)) - 1, p), scales, out);
}

}  // namespace deepinfer::cpu::avx512
