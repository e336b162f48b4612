// The lanes of simd.h with AVX2, FMA and F16C: two registers of eight; include simd.h only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define DI_LANE static inline __attribute__((always_inline))

namespace deepinfer::cpu::avx2 {

struct F {  // 16 floats
  __m256 lo, hi;
};
struct I {  // 16 int32
  __m256i lo, hi;
};
struct M {  // 16 truth values, all bits of a lane
  __m256i lo, hi;
};

#define DI_BOTH(name, a) \
  { name((a).lo), name((a).hi) }
#define DI_BOTH2(name, a, b) \
  { name((a).lo, (b).lo), name((a).hi, (b).hi) }

DI_LANE F splat(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
DI_LANE I splat_int(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
DI_LANE F load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
DI_LANE void store(float* p, F x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
DI_LANE I load_int(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
DI_LANE void store_int(int32_t* p, I x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.hi);
}

DI_LANE F operator+(F a, F b) {
  return DI_BOTH2(_mm256_add_ps, a, b);
}
DI_LANE F operator-(F a, F b) {
  return DI_BOTH2(_mm256_sub_ps, a, b);
}
DI_LANE F operator*(F a, F b) {
  return DI_BOTH2(_mm256_mul_ps, a, b);
}
DI_LANE F operator/(F a, F b) {
  return DI_BOTH2(_mm256_div_ps, a, b);
}
DI_LANE F fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
DI_LANE F square_root(F a) {
  return DI_BOTH(_mm256_sqrt_ps, a);
}
// Of two zeros, or with a NaN, the second argument.
DI_LANE F maximum(F a, F b) {
  return DI_BOTH2(_mm256_max_ps, a, b);
}
DI_LANE F minimum(F a, F b) {
  return DI_BOTH2(_mm256_min_ps, a, b);
}
DI_LANE F round_to_integer(F a) {
  return {_mm256_round_ps(a.lo, 8), _mm256_round_ps(a.hi, 8)};
}

DI_LANE I operator+(I a, I b) {
  return DI_BOTH2(_mm256_add_epi32, a, b);
}
DI_LANE I operator-(I a, I b) {
  return DI_BOTH2(_mm256_sub_epi32, a, b);
}
DI_LANE I bit_and(I a, I b) {
  return DI_BOTH2(_mm256_and_si256, a, b);
}
DI_LANE I bit_or(I a, I b) {
  return DI_BOTH2(_mm256_or_si256, a, b);
}
DI_LANE I bit_xor(I a, I b) {
  return DI_BOTH2(_mm256_xor_si256, a, b);
}
template <int kBits>
DI_LANE I shift_left(I a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
template <int kBits>
DI_LANE I shift_right(I a) {
  return {_mm256_srli_epi32(a.lo, kBits), _mm256_srli_epi32(a.hi, kBits)};
}
template <int kBits>
DI_LANE I shift_right_signed(I a) {
  return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}

DI_LANE I as_int(F a) {
  return DI_BOTH(_mm256_castps_si256, a);
}
DI_LANE F as_float(I a) {
  return DI_BOTH(_mm256_castsi256_ps, a);
}
DI_LANE F to_float(I a) {
  return DI_BOTH(_mm256_cvtepi32_ps, a);
}
DI_LANE I to_int(F a) {
  return DI_BOTH(_mm256_cvtps_epi32, a);
}  // nearest even

#define DI_COMPARE(a, b, how) \
  { _mm256_castps_si256(_mm256_cmp_ps((a).lo, (b).lo, how)), _mm256_castps_si256(_mm256_cmp_ps((a).hi, (b).hi, how)) }
DI_LANE M less(F a, F b) {
  return DI_COMPARE(a, b, _CMP_LT_OQ);
}
DI_LANE M less_equal(F a, F b) {
  return DI_COMPARE(a, b, _CMP_LE_OQ);
}
DI_LANE M equal(F a, F b) {
  return DI_COMPARE(a, b, _CMP_EQ_OQ);
}
#undef DI_COMPARE
DI_LANE M greater(I a, I b) {
  return DI_BOTH2(_mm256_cmpgt_epi32, a, b);
}
DI_LANE M equal(I a, I b) {
  return DI_BOTH2(_mm256_cmpeq_epi32, a, b);
}
DI_LANE M both(M a, M b) {
  return DI_BOTH2(_mm256_and_si256, a, b);
}
DI_LANE M either(M a, M b) {
  return DI_BOTH2(_mm256_or_si256, a, b);
}
DI_LANE M negate(M a) {
  const __m256i ones = _mm256_set1_epi32(-1);
  return {_mm256_xor_si256(a.lo, ones), _mm256_xor_si256(a.hi, ones)};
}
DI_LANE uint32_t bits(M a) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(a.lo))) |
         static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(a.hi))) << 8;
}
DI_LANE M mask_of_bits(uint32_t b) {
  const __m256i all = _mm256_set1_epi32(static_cast<int32_t>(b));
  const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), high = _mm256_slli_epi32(low, 8);
  return {_mm256_cmpeq_epi32(_mm256_and_si256(all, low), low), _mm256_cmpeq_epi32(_mm256_and_si256(all, high), high)};
}
DI_LANE F select(M m, F a, F b) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(m.lo)),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(m.hi))};
}
DI_LANE I select(M m, I a, I b) {
  return {_mm256_blendv_epi8(b.lo, a.lo, m.lo), _mm256_blendv_epi8(b.hi, a.hi, m.hi)};
}

DI_LANE I load_u16(const uint16_t* p) {
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
DI_LANE void store_u16(uint16_t* p, I x) {  // lanes are below 2^16
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(x.lo, x.hi), 0xD8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
}
DI_LANE I load_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
DI_LANE void store_u8(uint8_t* p, I x) {  // lanes are below 2^8
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(x.lo, x.hi), 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
// The 16 nibbles of 8 bytes, low nibble first.
DI_LANE I load_nibbles(const uint8_t* p) {
  int32_t words[2];
  __builtin_memcpy(words, p, sizeof(words));
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  // The bits above the nibble are not cleared.
  return {_mm256_srlv_epi32(_mm256_set1_epi32(words[0]), shifts),
          _mm256_srlv_epi32(_mm256_set1_epi32(words[1]), shifts)};
}
// Values of e2m1 codes; bits above the low 4 are ignored.
DI_LANE __m256 e2m1_values(__m256i code) {
  const __m256 table = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
  const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(code, 3), 31);
  return _mm256_or_ps(_mm256_permutevar8x32_ps(table, code), _mm256_castsi256_ps(sign));
}
DI_LANE F e2m1_values(I code) {
  return DI_BOTH(e2m1_values, code);
}
DI_LANE F swap_pairs(F a) {
  return {_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)};
}

// One tree for all paths: halves, quarters, then (0 + 1) + (2 + 3).
DI_LANE float horizontal_sum(F a) {
  const __m256 b = _mm256_add_ps(a.lo, a.hi);
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_shuffle_ps(c, c, 0xB1));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehl_ps(d, d)));
}
DI_LANE float horizontal_maximum(F a) {
  const __m256 b = _mm256_max_ps(a.lo, a.hi);
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_shuffle_ps(c, c, 0xB1));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehl_ps(d, d)));
}

// The 64-bit products of unsigned a and b, as high and low words.
DI_LANE void multiply_wide(__m256i a, uint32_t b, __m256i& high, __m256i& low) {
  const __m256i factor = _mm256_set1_epi64x(b);
  const __m256i even = _mm256_mul_epu32(a, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
DI_LANE void multiply_wide(I a, uint32_t b, I& high, I& low) {
  multiply_wide(a.lo, b, high.lo, low.lo);
  multiply_wide(a.hi, b, high.hi, low.hi);
}
// Eight lanes of four registers in turn: a0 b0 c0 d0 a1 b1 ... as four registers.
DI_LANE void interleave(__m256i a, __m256i b, __m256i c, __m256i d, I& first, I& second) {
  const __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
  const __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
  const __m256i r0 = _mm256_unpacklo_epi64(ab_low, cd_low), r1 = _mm256_unpackhi_epi64(ab_low, cd_low);
  const __m256i r2 = _mm256_unpacklo_epi64(ab_high, cd_high), r3 = _mm256_unpackhi_epi64(ab_high, cd_high);
  first = {_mm256_permute2x128_si256(r0, r1, 0x20), _mm256_permute2x128_si256(r2, r3, 0x20)};
  second = {_mm256_permute2x128_si256(r0, r1, 0x31), _mm256_permute2x128_si256(r2, r3, 0x31)};
}
// a0 b0 c0 d0 a1 b1 ...: out[0] holds lanes 0..3 of the four, and so on.
DI_LANE void interleave(const I (&in)[4], I (&out)[4]) {
  interleave(in[0].lo, in[1].lo, in[2].lo, in[3].lo, out[0], out[1]);
  interleave(in[0].hi, in[1].hi, in[2].hi, in[3].hi, out[2], out[3]);
}

#undef DI_BOTH
#undef DI_BOTH2

}  // namespace deepinfer::cpu::avx2
