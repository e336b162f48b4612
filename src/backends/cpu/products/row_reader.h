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
template <WeightFormat kFormat>
struct Reader;

template <>
struct Reader<WeightFormat::kFp8> {
  static constexpr int64_t kLine = 64, kStep = kFp8Step;
  static constexpr int kVectors = 4;
  DI_LANE void decode(const uint8_t* p, const uint8_t*, Vec* v) { decode_fp8(p, v); }
  DI_LANE void decode_tail(const uint8_t* p, const uint8_t*, int64_t, Vec* v) { decode_fp8_tail(p, v); }
};
template <>
struct Reader<WeightFormat::kFp4> {
  static constexpr int64_t kLine = 128, kStep = kFp4Step;
  static constexpr int kVectors = 8;
  DI_LANE void decode(const uint8_t* p, const uint8_t* scale, Vec* v) { decode_fp4(p, scale, v); }
  DI_LANE void decode_tail(const uint8_t* p, const uint8_t* scale, int64_t columns, Vec* v) {
    decode_fp4_tail(p, scale, columns / 32, v);
  }
};
template <>
struct Reader<WeightFormat::kBf16> {
  static constexpr int64_t kLine = 32, kStep = 2 * kWidth;
  static constexpr int kVectors = 2;
  DI_LANE void decode(const uint8_t* p, const uint8_t*, Vec* v) {
    widen_pairs(reinterpret_cast<const uint16_t*>(p), v);
  }
  DI_LANE void decode_tail(const uint8_t*, const uint8_t*, int64_t, Vec*) {}  // 32 divides k
};

// Rows of a weight one below the other.
struct Rows {
  const uint8_t* codes;
  const uint8_t* scale;  // FP4: of the first row
  int64_t row_bytes, row_scales;
  int64_t columns;
};

// acc += the vectors w times x.
template <int kVectors>
DI_LANE Vec accumulate(const Vec* w, const float* x, Vec acc) {
  // x is read from memory for every row: kept in registers it would push the sums out of them.
  __asm__("" : "+r"(x));
  for (int i = 0; i < kVectors; ++i) acc = multiply_add(w[i], load_vec(x + i * kWidth), acc);
  return acc;
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
