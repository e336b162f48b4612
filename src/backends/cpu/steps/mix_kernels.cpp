// The coefficients of a hyper-connection site: 24 long dot products a row, then Sinkhorn on a 4 x 4 matrix.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

// Rows and products of a tile: as many sums as the registers hold.  With AVX2 their lower and upper lanes are summed
// one after the other.
#if defined(__AVX512F__)
constexpr int kTileRows = 4, kTileOutputs = kMixProducts;
using Part = __m512;
#define DI_MIX(name) _mm512_##name
#else
constexpr int kTileRows = 4, kTileOutputs = kMixProducts / 2;
using Part = __m256;
#define DI_MIX(name) _mm256_##name
#endif
constexpr int kPartLanes = sizeof(Part) / sizeof(float);

// kRows x kOutputs dot products over `count` channels; rows of x are kMixChunk apart, zero behind `count`.
template <int kRows, int kOutputs>
DI_INLINE void dot_tile(const float* x, const float* fn, int64_t width, int64_t count, float* partial,
                        int64_t partial_stride) {
  const int64_t whole = count / kLanes * kLanes;
  alignas(64) float last[kOutputs][kLanes];  // of the weights, zero behind them
  for (int o = 0; o < kOutputs && whole < count; ++o) store(last[o], load(fn + o * width + whole, count - whole));
  alignas(64) float sums[kRows][kOutputs][kLanes];
  for (int first = 0; first < kLanes; first += kPartLanes) {
    Part sum[kRows][kOutputs];
    for (int r = 0; r < kRows; ++r) {
      for (int o = 0; o < kOutputs; ++o) sum[r][o] = DI_MIX(setzero_ps)();
    }
    const auto add = [&](int64_t i, const float* weights, int64_t stride) __attribute__((always_inline)) {
      Part value[kRows];
      for (int r = 0; r < kRows; ++r) value[r] = DI_MIX(load_ps)(x + r * kMixChunk + i + first);
      for (int o = 0; o < kOutputs; ++o) {
        const Part weight = DI_MIX(loadu_ps)(weights + o * stride + first);
        for (int r = 0; r < kRows; ++r) sum[r][o] = DI_MIX(fmadd_ps)(value[r], weight, sum[r][o]);
      }
    };
    for (int64_t i = 0; i < whole; i += kLanes) add(i, fn + i, width);
    if (whole < count) add(whole, last[0], kLanes);
    for (int r = 0; r < kRows; ++r) {
      for (int o = 0; o < kOutputs; ++o) DI_MIX(store_ps)(sums[r][o] + first, sum[r][o]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) partial[r * partial_stride + o] = horizontal_sum(load(sums[r][o]));
  }
}
#undef DI_MIX

// Widens a row's chunk and gives its sum of squares.
DI_INLINE float widen_chunk(const uint16_t* x, int64_t count, float* to) {
  F squares = splat(0);
  for (int64_t i = 0; i < count; i += kLanes) {
    const F v = load_bf16(x + i, count - i);
    squares = fma(v, v, squares);
    store(to + i, v);
  }
  return horizontal_sum(squares);
}

// Four floats of each of kMixFinishRows rows; an operation does the same for all rows.
#if defined(__AVX512F__)
using Fours = __m512;
DI_INLINE Fours load_fours(const float* x, int64_t stride) {
  Fours v = _mm512_castps128_ps512(_mm_loadu_ps(x));
  v = _mm512_insertf32x4(v, _mm_loadu_ps(x + stride), 1);
  v = _mm512_insertf32x4(v, _mm_loadu_ps(x + 2 * stride), 2);
  return _mm512_insertf32x4(v, _mm_loadu_ps(x + 3 * stride), 3);
}
DI_INLINE void store_fours(float* x, int64_t stride, Fours v) {
  _mm_storeu_ps(x, _mm512_castps512_ps128(v));
  _mm_storeu_ps(x + stride, _mm512_extractf32x4_ps(v, 1));
  _mm_storeu_ps(x + 2 * stride, _mm512_extractf32x4_ps(v, 2));
  _mm_storeu_ps(x + 3 * stride, _mm512_extractf32x4_ps(v, 3));
}
DI_INLINE void exponentials(Fours (&v)[4]) {
  for (auto& part : v) part = exponential(F{part}).v;
}
DI_INLINE Fours fours(float x) {
  return _mm512_set1_ps(x);
}
DI_INLINE Fours add(Fours a, Fours b) {
  return _mm512_add_ps(a, b);
}
DI_INLINE Fours subtract(Fours a, Fours b) {
  return _mm512_sub_ps(a, b);
}
DI_INLINE Fours divide(Fours a, Fours b) {
  return _mm512_div_ps(a, b);
}
DI_INLINE Fours larger(Fours a, Fours b) {
  return _mm512_max_ps(a, b);
}
DI_INLINE Fours unpack_low(Fours a, Fours b) {
  return _mm512_unpacklo_ps(a, b);
}
DI_INLINE Fours unpack_high(Fours a, Fours b) {
  return _mm512_unpackhi_ps(a, b);
}
template <int kPick>
DI_INLINE Fours shuffle(Fours a, Fours b) {
  return _mm512_shuffle_ps(a, b, kPick);
}
#else
using Fours = __m256;
DI_INLINE Fours load_fours(const float* x, int64_t stride) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x)), _mm_loadu_ps(x + stride), 1);
}
DI_INLINE void store_fours(float* x, int64_t stride, Fours v) {
  _mm_storeu_ps(x, _mm256_castps256_ps128(v));
  _mm_storeu_ps(x + stride, _mm256_extractf128_ps(v, 1));
}
DI_INLINE void exponentials(Fours (&v)[4]) {
  for (int i = 0; i < 4; i += 2) {
    const F e = exponential(F{v[i], v[i + 1]});
    v[i] = e.lo;
    v[i + 1] = e.hi;
  }
}
DI_INLINE Fours fours(float x) {
  return _mm256_set1_ps(x);
}
DI_INLINE Fours add(Fours a, Fours b) {
  return _mm256_add_ps(a, b);
}
DI_INLINE Fours subtract(Fours a, Fours b) {
  return _mm256_sub_ps(a, b);
}
DI_INLINE Fours divide(Fours a, Fours b) {
  return _mm256_div_ps(a, b);
}
DI_INLINE Fours larger(Fours a, Fours b) {
  return _mm256_max_ps(a, b);
}
DI_INLINE Fours unpack_low(Fours a, Fours b) {
  return _mm256_unpacklo_ps(a, b);
}
DI_INLINE Fours unpack_high(Fours a, Fours b) {
  return _mm256_unpackhi_ps(a, b);
}
template <int kPick>
DI_INLINE Fours shuffle(Fours a, Fours b) {
  return _mm256_shuffle_ps(a, b, kPick);
}
#endif
static_assert(kMixFinishRows % (sizeof(Fours) / 16) == 0, "groups of rows are whole");

// Of each row's 4 x 4 matrix.
DI_INLINE void transpose(Fours (&v)[4]) {
  const Fours a = unpack_low(v[0], v[1]), b = unpack_low(v[2], v[3]);
  const Fours c = unpack_high(v[0], v[1]), d = unpack_high(v[2], v[3]);
  v[0] = shuffle<0x44>(a, b);
  v[1] = shuffle<0xEE>(a, b);
  v[2] = shuffle<0x44>(c, d);
  v[3] = shuffle<0xEE>(c, d);
}

DI_INLINE Fours sum_of_four(const Fours (&v)[4]) {
  return add(add(add(v[0], v[1]), v[2]), v[3]);
}

DI_INLINE void divide_by_sums(Fours (&v)[4], Fours eps) {
  const Fours sum = add(sum_of_four(v), eps);
  for (auto& part : v) part = divide(part, sum);
}

// Softmax of the rows, then normalised columns and rows in turn; matrices are kLanes apart.
DI_INLINE void sinkhorn(float* c, int iterations, float hc_eps) {
  const Fours eps = fours(hc_eps);
  Fours v[4];  // v[i]: row i, or after a transposition v[j]: column j
  for (int i = 0; i < 4; ++i) v[i] = load_fours(c + 4 * i, kLanes);
  transpose(v);
  const Fours top = larger(larger(v[0], v[1]), larger(v[2], v[3]));
  for (auto& part : v) part = subtract(part, top);
  exponentials(v);
  const Fours sum = sum_of_four(v);
  for (auto& part : v) part = add(divide(part, sum), eps);
  transpose(v);
  divide_by_sums(v, eps);  // columns
  for (int k = 1; k < iterations; ++k) {
    transpose(v);
    divide_by_sums(v, eps);  // rows
    transpose(v);
    divide_by_sums(v, eps);
  }
  for (int i = 0; i < 4; ++i) store_fours(c + 4 * i, kLanes, v[i]);
}

// pre, post and the input of sinkhorn() of one row.
DI_INLINE void finish_row(const float* partial, const MixFinish& m, float* pre, float* post, float* c) {
  alignas(64) float mix[kMixPartial];
  F low = load(partial), high = load(partial + kLanes);
  for (int64_t chunk = 1; chunk < m.chunks; ++chunk) {
    low = low + load(partial + chunk * kMixPartial);
    high = high + load(partial + chunk * kMixPartial + kLanes);
  }
  store(mix + kLanes, high);
  const float r = 1.0f / __builtin_sqrtf(mix[kMixCount] / static_cast<float>(m.width) + m.norm_eps);
  store(mix, low * splat(r));
  store(mix + kLanes, high * splat(r));

  alignas(64) float gate[kLanes] = {};
  for (int j = 0; j < 4; ++j) {
    gate[j] = mix[j] * m.scale[0] + m.base[j];
    gate[4 + j] = mix[4 + j] * m.scale[1] + m.base[4 + j];
  }
  store(gate, sigmoid(load(gate)));
  for (int j = 0; j < 4; ++j) {
    pre[j] = gate[j] + m.hc_eps;
    post[j] = 2 * gate[4 + j];
  }
  for (int k = 0; k < kLanes; ++k) c[k] = mix[8 + k] * m.scale[2] + m.base[8 + k];
}

}  // namespace

namespace {

// kRows rows of mix_partial, kOutputs products at a time.
template <int kRows, int kOutputs>
DI_INLINE void partial_rows(const uint16_t* x, int64_t stride, const float* fn, int64_t width, int64_t first,
                            int64_t count, int product, int products, float* out, int64_t partial_stride) {
  alignas(64) float chunk[kRows * kMixChunk];
  for (int r = 0; r < kRows; ++r) {
    const float squares = widen_chunk(x + r * stride + first, count, chunk + r * kMixChunk);
    if (product == 0) out[r * partial_stride + kMixCount] = squares;
  }
  for (int o = product; o < product + products; o += kOutputs) {
    dot_tile<kRows, kOutputs>(chunk, fn + o * width + first, width, count, out + o, partial_stride);
  }
}

}  // namespace

void mix_partial(const uint16_t* x, int64_t stride, int64_t rows, const float* fn, int64_t width, int64_t first,
                 int64_t count, int product, int products, float* partial, int64_t partial_stride) {
  int64_t row = 0;
  const auto pass = [&]<int kRows, int kOutputs>() {
    partial_rows<kRows, kOutputs>(x + row * stride, stride, fn, width, first, count, product, products,
                                  partial + row * partial_stride, partial_stride);
    row += kRows;
  };
  while (row + kTileRows <= rows) pass.template operator()<kTileRows, kTileOutputs>();
  if (kTileRows > 2 && row + 2 <= rows) pass.template operator()<2, kMixProducts>();
  while (row < rows) pass.template operator()<1, kMixProducts>();
}

void mix_finish(const float* partial, int64_t partial_stride, int64_t rows, const MixFinish& m, float* const* pre,
                float* const* post, float* const* comb) {
  alignas(64) float c[kMixFinishRows * kLanes] = {};
  for (int64_t r = 0; r < rows; ++r) finish_row(partial + r * partial_stride, m, pre[r], post[r], c + r * kLanes);
  constexpr int64_t kAtOnce = sizeof(Fours) / 16;
  for (int64_t r = 0; r < rows; r += kAtOnce) sinkhorn(c + r * kLanes, m.iterations, m.hc_eps);
  for (int64_t r = 0; r < rows; ++r) store(comb[r], load(c + r * kLanes));
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
