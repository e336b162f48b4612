// The coefficients of a hyper-connection site: 24 long dot products a row, then Sinkhorn on a 4 x 4 matrix.
#include "backends/cpu/steps/isa_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

namespace {

#if defined(__AVX512F__)
constexpr int kTileRows = 4, kTileOutputs = kMixProducts;
#else
constexpr int kTileRows = 2, kTileOutputs = 2;
#endif

// kRows x kOutputs dot products over `count` channels; rows of x are kMixChunk apart, zero behind `count`.
template <int kRows, int kOutputs>
DI_INLINE void dot_tile(const float* x, const float* fn, int64_t width, int64_t count, float* partial,
                        int64_t partial_stride) {
  F sum[kRows][kOutputs];
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) sum[r][o] = splat(0);
  }
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    F value[kRows];
    for (int r = 0; r < kRows; ++r) value[r] = load(x + r * kMixChunk + i);
    for (int o = 0; o < kOutputs; ++o) {
      const F weight = load(fn + o * width + i);
      for (int r = 0; r < kRows; ++r) sum[r][o] = fma(value[r], weight, sum[r][o]);
    }
  }
  if (i < count) {
    for (int o = 0; o < kOutputs; ++o) {
      const F weight = load(fn + o * width + i, count - i);
      for (int r = 0; r < kRows; ++r) sum[r][o] = fma(load(x + r * kMixChunk + i), weight, sum[r][o]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) partial[r * partial_stride + o] = horizontal_sum(sum[r][o]);
  }
}

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

DI_INLINE __m128 sum_of_four(const __m128 (&v)[4]) {
  return _mm_add_ps(_mm_add_ps(_mm_add_ps(v[0], v[1]), v[2]), v[3]);
}

DI_INLINE void divide_by_sums(__m128 (&v)[4], __m128 eps) {
  const __m128 sum = _mm_add_ps(sum_of_four(v), eps);
  for (auto& part : v) part = _mm_div_ps(part, sum);
}

}  // namespace

void mix_partial(const uint16_t* x, int64_t stride, int64_t rows, const float* fn, int64_t width, int64_t first,
                 int64_t count, int product, int products, float* partial, int64_t partial_stride) {
  alignas(64) float chunk[kTileRows * kMixChunk];
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) {
    float* out = partial + row * partial_stride;
    for (int r = 0; r < kTileRows; ++r) {
      const float squares = widen_chunk(x + (row + r) * stride + first, count, chunk + r * kMixChunk);
      if (product == 0) out[r * partial_stride + kMixCount] = squares;
    }
    for (int o = product; o < product + products; o += kTileOutputs) {
      dot_tile<kTileRows, kTileOutputs>(chunk, fn + o * width + first, width, count, out + o, partial_stride);
    }
  }
  for (; row < rows; ++row) {
    float* out = partial + row * partial_stride;
    const float squares = widen_chunk(x + row * stride + first, count, chunk);
    if (product == 0) out[kMixCount] = squares;
    for (int o = product; o < product + products; o += kMixProducts) {
      dot_tile<1, kMixProducts>(chunk, fn + o * width + first, width, count, out + o, partial_stride);
    }
  }
}

void mix_finish(const float* partial, int64_t chunks, int64_t width, const float* base, const float* scale,
                int iterations, float hc_eps, float norm_eps, float* pre, float* post, float* comb) {
  alignas(64) float mix[kMixPartial];
  F low = load(partial), high = load(partial + kLanes);
  for (int64_t c = 1; c < chunks; ++c) {
    low = low + load(partial + c * kMixPartial);
    high = high + load(partial + c * kMixPartial + kLanes);
  }
  store(mix + kLanes, high);
  const float r = 1.0f / __builtin_sqrtf(mix[kMixCount] / static_cast<float>(width) + norm_eps);
  store(mix, low * splat(r));
  store(mix + kLanes, high * splat(r));

  alignas(64) float gate[kLanes] = {};
  for (int j = 0; j < 4; ++j) {
    gate[j] = mix[j] * scale[0] + base[j];
    gate[4 + j] = mix[4 + j] * scale[1] + base[4 + j];
  }
  store(gate, sigmoid(load(gate)));
  for (int j = 0; j < 4; ++j) {
    pre[j] = gate[j] + hc_eps;
    post[j] = 2 * gate[4 + j];
  }

  alignas(64) float c[kLanes];
  for (int k = 0; k < kLanes; ++k) c[k] = mix[8 + k] * scale[2] + base[8 + k];
  const __m128 eps = _mm_set1_ps(hc_eps);
  __m128 v[4];  // v[i]: row i, or after a transposition v[j]: column j
  for (int i = 0; i < 4; ++i) v[i] = _mm_loadu_ps(c + 4 * i);
  _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
  const __m128 top = _mm_max_ps(_mm_max_ps(v[0], v[1]), _mm_max_ps(v[2], v[3]));
  for (int j = 0; j < 4; ++j) _mm_storeu_ps(c + 4 * j, _mm_sub_ps(v[j], top));
  store(c, exponential(load(c)));
  for (int j = 0; j < 4; ++j) v[j] = _mm_loadu_ps(c + 4 * j);
  const __m128 sum = sum_of_four(v);
  for (auto& part : v) part = _mm_add_ps(_mm_div_ps(part, sum), eps);
  _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
  divide_by_sums(v, eps);  // columns
  for (int k = 1; k < iterations; ++k) {
    _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
    divide_by_sums(v, eps);  // rows
    _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
    divide_by_sums(v, eps);
  }
  for (int i = 0; i < 4; ++i) _mm_storeu_ps(comb + 4 * i, v[i]);
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
