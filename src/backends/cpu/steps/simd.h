// Sixteen fp32 lanes for the step kernels: one register with AVX-512, two with AVX2, the same bits either way.
//
// A kernel source is compiled once per instruction set (CMakeLists.txt) inside namespace cpu::DI_SIMD_NAMESPACE, so
// that no inline function compiled with AVX-512 flags can stand in for the same function of a lesser path.  For the
// same reason kernels include no C++ library templates.  Every reduction of lanes has one fixed tree, hence sums agree
// between paths.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#define DI_SIMD_NAMESPACE avx512
#include "backends/cpu/steps/simd_avx512.h"
#else
#define DI_SIMD_NAMESPACE avx2
#include "backends/cpu/steps/simd_avx2.h"
#endif

#define DI_INLINE static inline __attribute__((always_inline))

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

inline constexpr int kLanes = 16;

// bfloat16 travels as its bits here.

DI_INLINE F absolute(F x) {
  return as_float(bit_and(as_int(x), splat_int(0x7FFFFFFF)));
}

// Rounds to nearest even; a NaN stays a quiet NaN with its sign.  The bf16 bits lie in the low half of each lane.
DI_INLINE I to_bf16_bits(F x) {
  const I bits = as_int(x);
  const I odd = bit_and(shift_right<16>(bits), splat_int(1));
  const I rounded = shift_right<16>(bits + (odd + splat_int(0x7FFF)));
  const I quiet = bit_or(shift_right<16>(bits), splat_int(0x40));
  return select(greater(bit_and(bits, splat_int(0x7FFFFFFF)), splat_int(0x7F800000)), quiet, rounded);
}

DI_INLINE void store_bf16(uint16_t* to, F x) {
  store_u16(to, to_bf16_bits(x));
}

// For values that bf16 holds exactly.
DI_INLINE void store_bf16_exact(uint16_t* to, F x) {
  store_u16(to, shift_right<16>(as_int(x)));
}

DI_INLINE F load_bf16(const uint16_t* from) {
  return as_float(shift_left<16>(load_u16(from)));
}

// Rows whose width is no multiple of 16: `left` values remain, the other lanes are 0 and not written.
DI_INLINE F load_bf16(const uint16_t* from, int64_t left) {
  if (left >= kLanes) [[likely]]
    return load_bf16(from);
  uint16_t part[kLanes] = {};
  memcpy(part, from, static_cast<size_t>(left) * sizeof(uint16_t));
  return load_bf16(part);
}

DI_INLINE F load(const float* from, int64_t left) {
  if (left >= kLanes) [[likely]]
    return load(from);
  float part[kLanes] = {};
  memcpy(part, from, static_cast<size_t>(left) * sizeof(float));
  return load(part);
}

DI_INLINE void store_bf16(uint16_t* to, F x, int64_t left) {
  if (left >= kLanes) [[likely]]
    return store_bf16(to, x);
  uint16_t part[kLanes];
  store_bf16(part, x);
  memcpy(to, part, static_cast<size_t>(left) * sizeof(uint16_t));
}

DI_INLINE void store(float* to, F x, int64_t left) {
  if (left >= kLanes) [[likely]]
    return store(to, x);
  float part[kLanes];
  store(part, x);
  memcpy(to, part, static_cast<size_t>(left) * sizeof(float));
}

DI_INLINE float float_of_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
DI_INLINE uint32_t bits_of_float(float x) {
  return __builtin_bit_cast(uint32_t, x);
}

// e^x: at most 1.5 ulp from the exact value (tests/backends checks every float), +inf above 88.73, gradual underflow to
// 0.
DI_INLINE F exponential(F x) {
  x = minimum(maximum(x, splat(-104.0f)), splat(89.0f));
  const F n = round_to_integer(x * splat(0x1.715476p+0f));
  F r = fma(n, splat(-0x1.62e400p-1f), x);  // ln 2 in two parts: the first product is exact
  r = fma(n, splat(-0x1.7f7d1cp-20f), r);
  F y = splat(0x1.a0d2cep-13f);  // e^r = 1 + r + r^2 (1/2 + r/6 + ...) on [-ln2/2, ln2/2]
  y = fma(y, r, splat(0x1.6e879cp-10f));
  y = fma(y, r, splat(0x1.111370p-7f));
  y = fma(y, r, splat(0x1.555496p-5f));
  y = fma(y, r, splat(0x1.55553cp-3f));
  y = fma(y, r, splat(0x1.000002p-1f));
  y = fma(y * r, r, r) + splat(1.0f);
  // 2^n in two factors: the second product alone may round (results below 2^-126) or overflow.
  const I exponent = to_int(n);
  const I half = shift_right_signed<1>(exponent);
  const F low = as_float(shift_left<23>(half + splat_int(127)));
  const F high = as_float(shift_left<23>((exponent - half) + splat_int(127)));
  return (y * low) * high;
}

DI_INLINE F sigmoid(F x) {
  return splat(1.0f) / (splat(1.0f) + exponential(splat(0.0f) - x));
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
