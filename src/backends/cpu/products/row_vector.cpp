// Matrix-vector products: decode with one activation row.  Four weight rows at a time hide the latency of the one chain
// of multiply-adds that each row's sum is; a prefetch runs four rows ahead, so that every row's start is near as well.
#include "backends/cpu/products/row_products.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

constexpr int kRows = 4;

DI_LANE void prefetch(const uint8_t* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

// acc += the vectors w[0, count) times x.
template <int kCount>
DI_LANE Vec accumulate(const Vec* w, const float* x, Vec acc) {
  for (int i = 0; i < kCount; ++i) acc = multiply_add(w[i], load_vec(x + i * kWidth), acc);
  return acc;
}

template <int R>
DI_LANE void rows_fp8(const uint8_t* w, int64_t k, const float* x, float* out) {
  Vec acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero();
  int64_t i = 0;
  for (; i + kFp8Step <= k; i += kFp8Step) {
    for (int r = 0; r < R; ++r) {
      const uint8_t* p = w + r * k + i;
      prefetch(p + R * k);
      Vec v[4];
      decode_fp8(p, v);
      acc[r] = accumulate<4>(v, x + i, acc[r]);
    }
  }
  if (i < k) {
    for (int r = 0; r < R; ++r) {
      Vec v[2];
      decode_fp8_tail(w + r * k + i, v);
      acc[r] = accumulate<2>(v, x + i, acc[r]);
    }
  }
  for (int r = 0; r < R; ++r) out[r] = sum_lanes(acc[r]);
}

template <int R>
DI_LANE void rows_fp4(const uint8_t* w, const uint8_t* scale, int64_t k, const float* x, float* out) {
  Vec acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero();
  int64_t i = 0;
  for (; i + kFp4Step <= k; i += kFp4Step) {
    for (int r = 0; r < R; ++r) {
      const uint8_t* p = w + (r * k + i) / 2;
      prefetch(p + R * k / 2);
      Vec v[8];
      decode_fp4(p, scale + (r * k + i) / 32, v);
      acc[r] = accumulate<8>(v, x + i, acc[r]);
    }
  }
  if (i < k) {
    for (int r = 0; r < R; ++r) {
      Vec v[8];
      decode_fp4_tail(w + (r * k + i) / 2, scale + (r * k + i) / 32, (k - i) / 32, v);
      acc[r] = accumulate<8>(v, x + i, acc[r]);
    }
  }
  for (int r = 0; r < R; ++r) out[r] = sum_lanes(acc[r]);
}

template <int R>
DI_LANE void rows_bf16(const uint16_t* w, int64_t k, const float* x, float* out) {
  Vec acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero();
  for (int64_t i = 0; i < k; i += 32) {
    for (int r = 0; r < R; ++r) {
      const uint16_t* p = w + r * k + i;
      prefetch(reinterpret_cast<const uint8_t*>(p + R * k));
      for (int j = 0; j < 32; j += 2 * kWidth) {
        Vec v[2];
        widen_pairs(p + j, v);
        acc[r] = accumulate<2>(v, x + i + j, acc[r]);
      }
    }
  }
  for (int r = 0; r < R; ++r) out[r] = sum_lanes(acc[r]);
}

// x in fp32, in the order of the decoders' vectors.
void widen_row(const uint16_t* packed, int64_t columns, float* x) {
  for (int64_t i = 0; i < columns; i += 2 * kWidth) {
    Vec v[2];
    widen_pairs(packed + i, v);
    store_vec(x + i, v[0]);
    store_vec(x + i + kWidth, v[1]);
  }
}

// The same times the scales of one row of 32x32 weight tiles: a power of two, hence exact.
void widen_row_scaled(const uint16_t* packed, int64_t k, const uint8_t* scale, float* x) {
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

void multiply_fp8(const WeightBlock& weight, const uint16_t* packed, float* out, float* x) {
  const int64_t k = weight.k;
  for (int64_t first = 0; first < weight.outputs; first += 32) {
    const int64_t end = first + 32 < weight.outputs ? first + 32 : weight.outputs;
    widen_row_scaled(packed, k, weight.scale + first / 32 * (k / 32), x);
    int64_t n = first;
    for (; n + kRows <= end; n += kRows) rows_fp8<kRows>(weight.data + n * k, k, x, out + n);
    for (; n < end; ++n) rows_fp8<1>(weight.data + n * k, k, x, out + n);
  }
}

void multiply_fp4(const WeightBlock& weight, const uint16_t* packed, float* out, float* x) {
  const int64_t k = weight.k;
  widen_row(packed, packed_columns(WeightFormat::kFp4, k), x);
  int64_t n = 0;
  for (; n + kRows <= weight.outputs; n += kRows) {
    rows_fp4<kRows>(weight.data + n * k / 2, weight.scale + n * (k / 32), k, x, out + n);
  }
  for (; n < weight.outputs; ++n) rows_fp4<1>(weight.data + n * k / 2, weight.scale + n * (k / 32), k, x, out + n);
}

void multiply_bf16(const WeightBlock& weight, const uint16_t* packed, float* out, float* x) {
  const int64_t k = weight.k;
  const uint16_t* w = reinterpret_cast<const uint16_t*>(weight.data);
  widen_row(packed, k, x);
  int64_t n = 0;
  for (; n + kRows <= weight.outputs; n += kRows) rows_bf16<kRows>(w + n * k, k, x, out + n);
  for (; n < weight.outputs; ++n) rows_bf16<1>(w + n * k, k, x, out + n);
}

}  // namespace

int64_t row_scratch_floats(int64_t k) {
  return packed_columns(WeightFormat::kFp4, k);
}

void multiply_row(const WeightBlock& weight, const uint16_t* packed, float* out, float* x) {
  switch (weight.format) {
    case WeightFormat::kFp8:
      return multiply_fp8(weight, packed, out, x);
    case WeightFormat::kFp4:
      return multiply_fp4(weight, packed, out, x);
    case WeightFormat::kBf16:
      return multiply_bf16(weight, packed, out, x);
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
