// The number formats of tensor/formats.h on the device: the same bytes, the same values.  NaN codes are not looked at.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bf16.cuh"
#include "tensor/formats.h"

namespace deepinfer::cuda {

// Sign, exponent and mantissa moved into place give the value times 2^-120, subnormal numbers too.
__device__ __forceinline__ float e4m3_value(uint32_t code) {
  return __uint_as_float((code & 0x80u) << 24 | (code & 0x7fu) << 20) * 0x1p120f;
}
__device__ __forceinline__ float e2m1_value(uint32_t code) {  // low 4 bits
  return __uint_as_float((code & 8u) << 28 | (code & 7u) << 22) * 0x1p126f;
}
__device__ __forceinline__ float e8m0_value(uint32_t code) {
  return code == 0 ? 0x1p-127f : __uint_as_float(code == 255 ? 0x7fc00000u : code << 23);
}

// The code of a magnitude in a format of kMantissa bits whose smallest normal number is 2^kMinExponent: adding a number
// whose last place is the format's step rounds to nearest even and counts the steps.
template <int kMantissa, int kMinExponent>
__device__ __forceinline__ uint32_t magnitude_code(uint32_t bits) {
  constexpr int32_t kSmallestNormal = (kMinExponent + 127) << 23;
  const int32_t exponent = max(static_cast<int32_t>(bits & 0xff800000u), kSmallestNormal);
  const int32_t aligner = exponent + ((23 - kMantissa) << 23);
  const float sum = __uint_as_float(bits) + __uint_as_float(static_cast<uint32_t>(aligner));
  const int32_t steps = static_cast<int32_t>(__float_as_uint(sum)) - aligner;
  return static_cast<uint32_t>(steps + ((exponent - kSmallestNormal) >> (23 - kMantissa)));
}

__device__ __forceinline__ uint32_t magnitude_up_to(float value, float limit) {
  return min(__float_as_uint(value) & 0x7fffffffu, __float_as_uint(limit));
}
__device__ __forceinline__ uint32_t e4m3_code(float value) {
  return magnitude_code<3, -6>(magnitude_up_to(value, 448.0f)) | ((__float_as_uint(value) >> 24) & 0x80u);
}
// The value of e4m3_code(value): what adding and taking away that number leaves.
__device__ __forceinline__ float rounded_to_e4m3(float value) {
  const uint32_t magnitude = magnitude_up_to(value, 448.0f);
  const uint32_t aligner = max(magnitude & 0xff800000u, 121u << 23) + (20u << 23);
  const float rounded = (__uint_as_float(magnitude) + __uint_as_float(aligner)) - __uint_as_float(aligner);
  return __uint_as_float(__float_as_uint(rounded) | (__float_as_uint(value) & 0x80000000u));
}
__device__ __forceinline__ uint32_t e2m1_code(float value) {
  return magnitude_code<1, 0>(magnitude_up_to(value, 6.0f)) | ((__float_as_uint(value) >> 28) & 8u);
}

// Code of the smallest power of two >= t, t normal and positive.
__device__ __forceinline__ uint32_t power_of_two_ceiling(float t) {
  return (__float_as_uint(t) + 0x7fffffu) >> 23;
}
// 1 / 2^(code - 127), codes 1 to 253.
__device__ __forceinline__ float reciprocal_of_scale(uint32_t code) {
  return __uint_as_float((254u - code) << 23);
}

// Scale codes of a group from its largest magnitude, sections 6.1, 6.3 and 6.4 of the model's specification.
__device__ __forceinline__ uint32_t fp8_scale(float largest) {
  return power_of_two_ceiling(fmaxf(largest, 1e-4f) * (1.0f / 448.0f));
}
__device__ __forceinline__ uint32_t main_kv_scale(float largest) {
  return e4m3_code(fmaxf(largest, 6 * 0x1p-9f) * (1.0f / 6.0f));
}
__device__ __forceinline__ uint32_t index_scale(float largest) {
  return power_of_two_ceiling(fmaxf(largest, 6 * 0x1p-126f) * (1.0f / 6.0f));
}

}  // namespace deepinfer::cuda
