// Matrix products with several activation rows: a panel of kPanelOutputs x kPanelColumns weights is decoded to fp32
// once and meets up to kPanelRows rows.  A sum is kept as lanes from one run of columns to the next, so that its order
// is that of the matrix-vector product: lane by lane, vector after vector along K, lanes added last.
#include "backends/cpu/products/row_products.h"
#include "backends/cpu/products/row_reader.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

constexpr int64_t kPanelColumns = 512;  // a multiple of every decoder's step
constexpr int64_t kPanelSteps = kPanelColumns / kFp4Step;
constexpr int64_t kPanelOutputs = 64;
constexpr int64_t kPanelRows = 96;
constexpr int64_t kCloseRows = 12;
constexpr int64_t kBytesAhead = 2048;  // that weights come near: in this row, or in those below it
// Register tile: rows x kOutputs sums, one vector of each row, one of a weight.
constexpr int kPanelTileRows = kWidth == 16 ? 6 : 3;
constexpr int kOutputs = 4;
static_assert(kPanelColumns % kFp4Step == 0 && kPanelColumns % kFp8Step == 0);

template <int kCount>
DI_LANE void store_all(const Vec* v, float* to) {
  for (int i = 0; i < kCount; ++i) store_vec(to + i * kWidth, v[i]);
}

// The vectors of a decoded step, one behind the other; each times the factor of its 32 columns.
template <typename Step>
DI_LANE void store_step(const Step& step, float* to) {
  unroll<Step::kVectors>([&](auto i)
                             __attribute__((always_inline)) { store_vec(to + i * kWidth, step.template vector<i>()); });
}
template <typename Step>
DI_LANE void store_scaled_step(const Step& step, const uint8_t* scale, float* to) {
  unroll<Step::kVectors>([&](auto i) __attribute__((always_inline)) {
    const Vec factor = broadcast(fp8_factor(scale[i / 2 * 2 * kWidth / 32]));
    store_vec(to + i * kWidth, times(step.template vector<i>(), factor));
  });
}

// Columns [begin, end) of one weight row, in the order of the decoders, as fp32.
void decode_fp8_row(const uint8_t* w, const uint8_t* scale, int64_t begin, int64_t end, float* to) {
  int64_t i = begin;
  for (; i + kFp8Step <= end; i += kFp8Step, to += kFp8Step) {
    prefetch(w + i + kBytesAhead);
    Fp8Step step;
    step.read(w + i, scale);
    store_scaled_step(step, scale + i / 32, to);
  }
  if (i < end) {
    Fp8HalfStep step;
    step.read(w + i, scale);
    store_scaled_step(step, scale + i / 32, to);
  }
}

// factors: one vector a step, where steps are scaled.
void decode_fp4_row(const uint8_t* w, const uint8_t* scale, int64_t begin, int64_t end, bool last, float* to,
                    float* factors) {
  int64_t i = begin;
  for (; i + kFp4Step + (kFp4ScaledSteps && last ? 1 : 0) <= end; i += kFp4Step, to += kFp4Step, factors += kWidth) {
    prefetch(w + i / 2 + kBytesAhead);
#if defined(__AVX512F__)
    Vec v[8];
    decode_fp4(w + i / 2, v);
    store_all<8>(v, to);
    store_vec(factors, fp4_factors(scale + i / 32));
#else
    Fp4Step step;
    step.read(w + i / 2, scale + i / 32);
    store_step(step, to);
#endif
  }
  if (i == end) return;
#if defined(__AVX512F__)
  Vec v[8];
  decode_fp4_last(w + i / 2, (end - i) / 32, v);
  store_all<8>(v, to);
  store_vec(factors, fp4_factors_last(scale + i / 32, (end - i) / 32));
#else
  Fp4HalfStep step;
  step.read(w + i / 2, scale + i / 32);
  store_step(step, to);
#endif
}

// bf16 columns as fp32, while the same of the next run come near.
void widen_run(const uint16_t* from, int64_t columns, float* to) {
  for (int64_t i = 0; i < columns; i += 32) prefetch(reinterpret_cast<const uint8_t*>(from + i) + kBytesAhead);
  widen_row(from, columns, to);
}

void decode_weight_row(const WeightBlock& weight, int64_t n, int64_t begin, int64_t end, float* to, float* factors) {
  const int64_t k = weight.k;
  switch (weight.format) {
    case WeightFormat::kFp8:
      return decode_fp8_row(weight.data + n * k, weight.scale + n / 32 * (k / 32), begin, end, to);
    case WeightFormat::kFp4:
      return decode_fp4_row(weight.data + n * k / 2, weight.scale + n * (k / 32), begin, end, end == k, to, factors);
    case WeightFormat::kBf16:
      return widen_run(reinterpret_cast<const uint16_t*>(weight.data) + n * k + begin, end - begin, to);
  }
}

// A panel of weights, decoded: outputs kPanelColumns apart; FP4: of every step its factors, kPanelSteps vectors an
// output.
struct Panel {
  const float* weights;
  const float* factors;
};

// One run of columns for M rows and N outputs.  Rows of x lie kPanelColumns apart.
// lanes[M][N] holds the sums between runs.  Tiles lie one after the other as they are visited: a stream to the caches,
// which rows a power of two apart would not be.
struct Run {
  int64_t columns;
  bool first, last;
  int64_t stride;  // of out
};

template <int M, int N>
DI_LANE void tile_product(const Run& run, const Panel& w, const float* x, float* lanes, float* out) {
  constexpr int kVectors =
      32 / kWidth;  // that one turn of the loop reads of each row: few turns are foreseen to the end
  Vec acc[M * N];
  if (run.first) {
    unroll<M * N>([&](auto i) __attribute__((always_inline)) { acc[i] = zero(); });
  } else {
    unroll<M * N>([&](auto i) __attribute__((always_inline)) { acc[i] = load_vec(lanes + i * kWidth); });
  }
  const float* weights = w.weights;
  const float* const end = x + run.columns;
  for (; x < end; x += 32, weights += 32) {
    unroll<kVectors>([&](auto i) __attribute__((always_inline)) {
      Vec v[M];
      unroll<M>([&](auto m) __attribute__((always_inline)) { v[m] = load_vec(x + m * kPanelColumns + i * kWidth); });
      unroll<N>([&](auto n) __attribute__((always_inline)) {
        const Vec weight = load_vec(weights + n * kPanelColumns + i * kWidth);
        unroll<M>([&](auto m)
                      __attribute__((always_inline)) { acc[m * N + n] = multiply_add(weight, v[m], acc[m * N + n]); });
      });
    });
  }
  if (run.last) {
    unroll<M>([&](auto m) __attribute__((always_inline)) { sum_all_lanes<N>(acc + m * N, out + m * run.stride); });
  } else {
    unroll<M * N>([&](auto i) __attribute__((always_inline)) { store_vec(lanes + i * kWidth, acc[i]); });
  }
}

// The same with steps scaled one by one: the sums of a step fill the registers, those of all steps are in memory.
template <int M, int N>
DI_LANE void tile_product_scaled(const Run& run, const Panel& w, const float* x, float* lanes, float* out) {
  const int64_t columns = run.columns, stride = run.stride;
  for (int64_t begin = 0, step = 0; begin < columns; begin += kFp4Step, ++step) {
    Vec sum[M][N];
    for (int64_t i = begin; i < begin + kFp4Step; i += kWidth) {
      Vec v[M];
      for (int m = 0; m < M; ++m) v[m] = load_vec(x + m * kPanelColumns + i);
      for (int n = 0; n < N; ++n) {
        const Vec weight = load_vec(w.weights + n * kPanelColumns + i);
        for (int m = 0; m < M; ++m) {
          sum[m][n] = i == begin ? times(weight, v[m]) : multiply_add(weight, v[m], sum[m][n]);
        }
      }
    }
    const bool fresh = run.first && begin == 0;
    for (int n = 0; n < N; ++n) {
      const Vec factors = load_vec(w.factors + (n * kPanelSteps + step) * kWidth);
      for (int m = 0; m < M; ++m) {
        float* lane = lanes + (m * N + n) * kWidth;
        store_vec(lane, multiply_add(sum[m][n], factors, fresh ? zero() : load_vec(lane)));
      }
    }
  }
  if (!run.last) return;
  for (int m = 0; m < M; ++m) {
    Vec sum[N];
    for (int n = 0; n < N; ++n) sum[n] = load_vec(lanes + (m * N + n) * kWidth);
    sum_all_lanes<N>(sum, out + m * stride);
  }
}

template <bool kScaledSteps, int M, int N>
DI_LANE void any_tile(const Run& run, const Panel& w, const float* x, float* lanes, float* out) {
  if constexpr (kScaledSteps) {
    tile_product_scaled<M, N>(run, w, x, lanes, out);
  } else {
    tile_product<M, N>(run, w, x, lanes, out);
  }
}

template <bool kScaledSteps, int M>
void rows_product(const Run& run, int64_t outputs, const Panel& w, const float* x, float* lanes, float* out) {
  if (outputs == kOutputs) return any_tile<kScaledSteps, M, kOutputs>(run, w, x, lanes, out);
  for (int64_t n = 0; n < outputs; ++n) {
    const Panel one{.weights = w.weights + n * kPanelColumns, .factors = w.factors + n * kPanelSteps * kWidth};
    any_tile<kScaledSteps, M, 1>(run, one, x, lanes + n * M * kWidth, out + n);
  }
}

// Rows of the next part: never a single row is left over, whose few chains would wait for each other.
DI_LANE int64_t next_rows(int64_t left, int64_t most) {
  return left <= most ? left : left == most + 1 ? most - 1 : most;
}

// All outputs of the panel for a few rows, which stay in the first-level cache meanwhile.
template <bool kScaledSteps>
void close_rows_product(const Run& run, int64_t rows, int64_t outputs, const Panel& w, const float* x, float* lanes,
                        float* out) {
  for (int64_t n = 0; n < outputs; n += kOutputs) {
    const int64_t count = outputs - n < kOutputs ? outputs - n : kOutputs;
    const Panel wn{.weights = w.weights + n * kPanelColumns, .factors = w.factors + n * kPanelSteps * kWidth};
    for (int64_t m = 0, step; m < rows; m += step) {
      step = next_rows(rows - m, kPanelTileRows);
      const float* xm = x + m * kPanelColumns;
      float* to = out + m * run.stride + n;
      switch (step) {
        case 1:
          rows_product<kScaledSteps, 1>(run, count, wn, xm, lanes, to);
          break;
        case 2:
          rows_product<kScaledSteps, 2>(run, count, wn, xm, lanes, to);
          break;
        case 3:
          rows_product<kScaledSteps, 3>(run, count, wn, xm, lanes, to);
          break;
        case 4:
          rows_product<kScaledSteps, 4>(run, count, wn, xm, lanes, to);
          break;
        case 5:
          rows_product<kScaledSteps, 5>(run, count, wn, xm, lanes, to);
          break;
        default:
          rows_product<kScaledSteps, kPanelTileRows>(run, count, wn, xm, lanes, to);
          break;
      }
      lanes += step * count * kWidth;
    }
  }
}

template <bool kScaledSteps>
void panel_product(const Run& run, int64_t rows, int64_t outputs, const Panel& w, const float* x, float* lanes,
                   float* out) {
  for (int64_t m = 0, count; m < rows; m += count) {
    count = next_rows(rows - m, kCloseRows);
    close_rows_product<kScaledSteps>(run, count, outputs, w, x + m * kPanelColumns, lanes + m * kPanelOutputs * kWidth,
                                     out + m * run.stride);
  }
}

}  // namespace

int64_t panel_scratch_floats() {
  return kPanelOutputs * kPanelColumns + kPanelRows * kPanelColumns + kPanelRows * kPanelOutputs * kWidth +
         kPanelOutputs * kPanelSteps * kWidth;
}

void multiply_panel(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                    float* scratch) {
  float* w = scratch;
  float* x = w + kPanelOutputs * kPanelColumns;
  float* lanes = x + kPanelRows * kPanelColumns;
  float* factors = lanes + kPanelRows * kPanelOutputs * kWidth;
  const Panel panel{.weights = w, .factors = factors};
  const int64_t columns = packed_columns(weight.format, weight.k);
  for (int64_t n = 0; n < weight.outputs; n += kPanelOutputs) {
    const int64_t outputs = weight.outputs - n < kPanelOutputs ? weight.outputs - n : kPanelOutputs;
    const bool widened =
        n > 0 && columns <= kPanelColumns && next_rows(rows, kPanelRows) == rows;  // by the first panel
    for (int64_t m = 0, count; m < rows; m += count) {
      count = next_rows(rows - m, kPanelRows);
      for (int64_t begin = 0; begin < columns; begin += kPanelColumns) {
        const int64_t end = begin + kPanelColumns < columns ? begin + kPanelColumns : columns;
        const int64_t weight_end = end < weight.k ? end : weight.k;
        for (int64_t i = 0; i < outputs; ++i) {
          decode_weight_row(weight, n + i, begin, weight_end, w + i * kPanelColumns,
                            factors + i * kPanelSteps * kWidth);
        }
        for (int64_t i = 0; i < count && !widened; ++i) {
          widen_run(packed + (m + i) * columns + begin, end - begin, x + i * kPanelColumns);
        }
        const Run run{.columns = end - begin, .first = begin == 0, .last = end == columns, .stride = stride};
        if (kFp4ScaledSteps && weight.format == WeightFormat::kFp4) {
          panel_product<kFp4ScaledSteps>(run, count, outputs, panel, x, lanes, out + m * stride + n);
        } else {
          panel_product<false>(run, count, outputs, panel, x, lanes, out + m * stride + n);
        }
      }
    }
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
