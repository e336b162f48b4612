// How the rows of a weight and of the activations are read, for the kernels that decode weights in registers.
// Kernel sources only: everything is inlined into them.
#pragma once

#include "backends/cpu/products/row_products.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

DI_LANE void prefetch(const uint8_t* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

// How a format is read: kLine columns are 64 bytes, kStep columns are decoded at once into kVectors vectors.
//
// Every lane's sum is one chain of multiply-adds, vector after vector along K, with scales applied beforehand to the
// activations or to the weights, exactly.  But for kScaledSteps: there the products of a step add up on their own,
// without scales, and one more multiply-add brings them with their factors into the sum; weights need no scaling one by
// one.
template <WeightFormat kFormat>
struct Reader;

template <>
struct Reader<WeightFormat::kFp8> {
  static constexpr int64_t kLine = 64, kStep = kFp8Step;
  static constexpr int kVectors = 4, kLastVectors = 2;
  static constexpr bool kScaledSteps = false;
  DI_LANE void decode(const uint8_t* p, const uint8_t*, Vec* v) { decode_fp8(p, v); }
  DI_LANE Vec factors(const uint8_t*) { return zero(); }
  // Columns behind the whole steps but the last of a row.
  DI_LANE void decode_last(const uint8_t* p, const uint8_t*, int64_t, Vec* v) { decode_fp8_tail(p, v); }
  DI_LANE Vec factors_last(const uint8_t*, int64_t) { return zero(); }
};
template <>
struct Reader<WeightFormat::kFp4> {
  static constexpr int64_t kLine = 128, kStep = kFp4Step;
  static constexpr int kVectors = 8, kLastVectors = 8;
  static constexpr bool kScaledSteps = kFp4ScaledSteps;
  DI_LANE void decode(const uint8_t* p, const uint8_t* scale, Vec* v) { decode_fp4(p, scale, v); }
  DI_LANE Vec factors(const uint8_t* scale) { return fp4_factors(scale); }
  DI_LANE void decode_last(const uint8_t* p, const uint8_t* scale, int64_t columns, Vec* v) {
    decode_fp4_last(p, scale, columns / 32, v);
  }
  DI_LANE Vec factors_last(const uint8_t* scale, int64_t columns) { return fp4_factors_last(scale, columns / 32); }
};
template <>
struct Reader<WeightFormat::kBf16> {
  static constexpr int64_t kLine = 32, kStep = 2 * kWidth;
  static constexpr int kVectors = 2, kLastVectors = 2;
  static constexpr bool kScaledSteps = false;
  DI_LANE void decode(const uint8_t* p, const uint8_t*, Vec* v) {
    widen_pairs(reinterpret_cast<const uint16_t*>(p), v);
  }
  DI_LANE Vec factors(const uint8_t*) { return zero(); }
  DI_LANE void decode_last(const uint8_t*, const uint8_t*, int64_t, Vec*) {}  // 32 divides k
  DI_LANE Vec factors_last(const uint8_t*, int64_t) { return zero(); }
};

// Rows of a weight one below the other.
struct Rows {
  const uint8_t* codes;
  const uint8_t* scale;  // FP4: of the first row
  int64_t row_bytes, row_scales;
  int64_t columns;
};

// acc plus a step: the vectors w times x, times factors where steps are scaled.
template <int kVectors, bool kScaled>
DI_LANE Vec add_step(const Vec* w, const float* x, Vec factors, Vec acc) {
  if constexpr (kScaled) {
    Vec sum = times(w[0], load_vec(x));
    for (int i = 1; i < kVectors; ++i) sum = multiply_add(w[i], load_vec(x + i * kWidth), sum);
    return multiply_add(sum, factors, acc);
  } else {
    for (int i = 0; i < kVectors; ++i) acc = multiply_add(w[i], load_vec(x + i * kWidth), acc);
    return acc;
  }
}

// out[i] = the sum of the lanes of v[i].
template <int kCount>
DI_LANE void sum_all_lanes(const Vec* v, float* out) {
  for (int i = 0; i < kCount / 4 * 4; i += 4) sum_lanes_of_four(v + i, out + i);
  for (int i = kCount / 4 * 4; i < kCount; ++i) out[i] = sum_lanes(v[i]);
}

// x in fp32, in the order of the decoders' vectors.
DI_LANE void widen_row(const uint16_t* packed, int64_t columns, float* x) {
  for (int64_t i = 0; i < columns; i += 2 * kWidth) {
    Vec v[2];
    widen_pairs(packed + i, v);
    store_vec(x + i, v[0]);
    store_vec(x + i + kWidth, v[1]);
  }
}

// The same times the scales of one row of 32x32 weight tiles: a power of two, hence exact.
DI_LANE void widen_row_scaled(const uint16_t* packed, int64_t k, const uint8_t* scale, float* x) {
  for (int64_t i = 0; i < k; i += 32) {
    const Vec factor = broadcast(fp8_factor(scale[i / 32]));
    for (int64_t j = i; j < i + 32; j += 2 * kWidth) {
      Vec v[2];
      widen_pairs(packed + j, v);
      store_vec(x + j, times(v[0], factor));
      store_vec(x + j + kWidth, times(v[1], factor));
    }
  }
}

}  // namespace
}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
