// FP8 rounding of one group of 32 channels in registers (specs/v41-model.md 6.1); kernel sources only.
#pragma once

#include "backends/cpu/steps/simd.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

// The E8M0 code of the scale of a group whose largest magnitude is given.
DI_INLINE uint32_t fp8_scale(float largest) {
  const float t = (largest < 1e-4f ? 1e-4f : largest) * (1.0f / 448.0f);
  return (bits_of_float(t) + 0x7FFFFFu) >> 23;
}

// y[0, 32) = a and b rounded to e4m3 values times their common power-of-two scale, exact in bf16.
DI_INLINE void round_fp8_group(F a, F b, uint16_t* y) {
  const F limit = splat(448.0f);
  const F aligner = splat(16384.0f);  // its last place is 2^-9, the step of subnormal e4m3
  const uint32_t scale = fp8_scale(horizontal_maximum(maximum(absolute(a), absolute(b))));
  const F multiply = splat(float_of_bits((254u - scale) << 23)), back = splat(float_of_bits(scale << 23));
  const F values[2] = {a, b};
  for (int part = 0; part < 2; ++part) {
    const F scaled = values[part] * multiply;
    const F magnitude = minimum(absolute(scaled), limit);
    const I bits = as_int(magnitude);
    const I odd = bit_and(shift_right<20>(bits), splat_int(1));
    const I rounded = bit_and(bits + (odd + splat_int(0x7FFFF)), splat_int(~0xFFFFF));
    const F small = (magnitude + aligner) - aligner;
    const F value = select(less(magnitude, splat(0.015625f)), small, as_float(rounded));
    const I sign = bit_and(as_int(scaled), splat_int(INT32_MIN));
    store_bf16_exact(y + part * kLanes, as_float(bit_or(as_int(value * back), sign)));
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
