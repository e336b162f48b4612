// The lanes of simd.h with AVX-512 F, BW, DQ, VL; include simd.h only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define DI_LANE static inline __attribute__((always_inline))

namespace deepinfer::cpu::avx512 {

struct F {  // 16 floats
  __m512 v;
};
struct I {  // 16 int32
  __m512i v;
};
struct M {  // 16 truth values
  __mmask16 v;
};

DI_LANE F splat(float x) {
  return {_mm512_set1_ps(x)};
}
DI_LANE I splat_int(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
DI_LANE F load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
DI_LANE void store(float* p, F x) {
  _mm512_storeu_ps(p, x.v);
}
DI_LANE I load_int(const int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
DI_LANE void store_int(int32_t* p, I x) {
  _mm512_storeu_si512(p, x.v);
}

DI_LANE F operator+(F a, F b) {
  return {_mm512_add_ps(a.v, b.v)};
}
DI_LANE F operator-(F a, F b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
DI_LANE F operator*(F a, F b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
DI_LANE F operator/(F a, F b) {
  return {_mm512_div_ps(a.v, b.v)};
}
DI_LANE F fma(F a, F b, F c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
DI_LANE F square_root(F a) {
  return {_mm512_sqrt_ps(a.v)};
}
// Of two zeros, or with a NaN, the second argument.
DI_LANE F maximum(F a, F b) {
  return {_mm512_max_ps(a.v, b.v)};
}
DI_LANE F minimum(F a, F b) {
  return {_mm512_min_ps(a.v, b.v)};
}
DI_LANE F round_to_integer(F a) {
  return {_mm512_roundscale_ps(a.v, 8)};
}

DI_LANE I operator+(I a, I b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
DI_LANE I operator-(I a, I b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
DI_LANE I bit_and(I a, I b) {
  return {_mm512_and_si512(a.v, b.v)};
}
DI_LANE I bit_or(I a, I b) {
  return {_mm512_or_si512(a.v, b.v)};
}
DI_LANE I bit_xor(I a, I b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int kBits>
DI_LANE I shift_left(I a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
DI_LANE I shift_right(I a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
DI_LANE I shift_right_signed(I a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}

DI_LANE I as_int(F a) {
  return {_mm512_castps_si512(a.v)};
}
DI_LANE F as_float(I a) {
  return {_mm512_castsi512_ps(a.v)};
}
DI_LANE F to_float(I a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
DI_LANE I to_int(F a) {
  return {_mm512_cvtps_epi32(a.v)};
}  // nearest even

DI_LANE M less(F a, F b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
DI_LANE M less_equal(F a, F b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
DI_LANE M equal(F a, F b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
DI_LANE M greater(I a, I b) {
  return {_mm512_cmpgt_epi32_mask(a.v, b.v)};
}
DI_LANE M equal(I a, I b) {
  return {_mm512_cmpeq_epi32_mask(a.v, b.v)};
}
DI_LANE M both(M a, M b) {
  return {static_cast<__mmask16>(a.v & b.v)};
}
DI_LANE M either(M a, M b) {
  return {static_cast<__mmask16>(a.v | b.v)};
}
DI_LANE M negate(M a) {
  return {static_cast<__mmask16>(~a.v)};
}
DI_LANE uint32_t bits(M a) {
  return a.v;
}
DI_LANE M mask_of_bits(uint32_t b) {
  return {static_cast<__mmask16>(b)};
}
DI_LANE F select(M m, F a, F b) {
  return {_mm512_mask_blend_ps(m.v, b.v, a.v)};
}
DI_LANE I select(M m, I a, I b) {
  return {_mm512_mask_blend_epi32(m.v, b.v, a.v)};
}

DI_LANE I load_u16(const uint16_t* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
DI_LANE void store_u16(uint16_t* p, I x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x.v));
}
DI_LANE I load_u8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
DI_LANE void store_u8(uint8_t* p, I x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
// The 16 nibbles of 8 bytes, low nibble first.
DI_LANE I load_nibbles(const uint8_t* p) {
  const __m128i both = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m512i words = _mm512_permutexvar_epi32(_mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
                                                 _mm512_castsi128_si512(both));
  const __m512i shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
  return {_mm512_srlv_epi32(words, shifts)};  // the bits above the nibble are not cleared
}
// Values of e2m1 codes; bits above the low 4 are ignored.
DI_LANE F e2m1_values(I code) {
  const __m512 table = _mm512_set_ps(-6, -4, -3, -2, -1.5f, -1, -0.5f, -0.0f, 6, 4, 3, 2, 1.5f, 1, 0.5f, 0);
  return {_mm512_permutexvar_ps(code.v, table)};
}
DI_LANE F swap_pairs(F a) {
  return {_mm512_permute_ps(a.v, 0xB1)};
}

// One tree for all paths: halves, quarters, then (0 + 1) + (2 + 3).
DI_LANE float horizontal_sum(F a) {
  const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_shuffle_ps(c, c, 0xB1));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehl_ps(d, d)));
}
DI_LANE float horizontal_maximum(F a) {
  const __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_shuffle_ps(c, c, 0xB1));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehl_ps(d, d)));
}

// The 64-bit products of unsigned a and b, as high and low words.
DI_LANE void multiply_wide(I a, uint32_t b, I& high, I& low) {
  const __m512i factor = _mm512_set1_epi64(b);
  const __m512i even = _mm512_mul_epu32(a.v, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), factor);
  high.v = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  low.v = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}
// a0 b0 c0 d0 a1 b1 ...: out[0] holds lanes 0..3 of the four, and so on.
DI_LANE void interleave(const I (&in)[4], I (&out)[4]) {
  const __m512i ab_low = _mm512_unpacklo_epi32(in[0].v, in[1].v), ab_high = _mm512_unpackhi_epi32(in[0].v, in[1].v);
  const __m512i cd_low = _mm512_unpacklo_epi32(in[2].v, in[3].v), cd_high = _mm512_unpackhi_epi32(in[2].v, in[3].v);
  // Register i holds lanes i, 4 + i, 8 + i, 12 + i of the four inputs, one 128-bit block each.
  const __m512i r0 = _mm512_unpacklo_epi64(ab_low, cd_low), r1 = _mm512_unpackhi_epi64(ab_low, cd_low);
  const __m512i r2 = _mm512_unpacklo_epi64(ab_high, cd_high), r3 = _mm512_unpackhi_epi64(ab_high, cd_high);
  const __m512i r01_low = _mm512_shuffle_i32x4(r0, r1, 0x44), r01_high = _mm512_shuffle_i32x4(r0, r1, 0xEE);
  const __m512i r23_low = _mm512_shuffle_i32x4(r2, r3, 0x44), r23_high = _mm512_shuffle_i32x4(r2, r3, 0xEE);
  out[0].v = _mm512_shuffle_i32x4(r01_low, r23_low, 0x88);
  out[1].v = _mm512_shuffle_i32x4(r01_low, r23_low, 0xDD);
  out[2].v = _mm512_shuffle_i32x4(r01_high, r23_high, 0x88);
  out[3].v = _mm512_shuffle_i32x4(r01_high, r23_high, 0xDD);
}

}  // namespace deepinfer::cpu::avx512
