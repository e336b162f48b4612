// Matrix products with several activation rows: a panel of kPanelOutputs x kPanelColumns weights is decoded to fp32
// once and meets up to kPanelRows rows.  A sum is kept as lanes from one run of columns to the next, so that its order
// is that of the matrix-vector product: lane by lane, vector after vector along K, lanes added last.
#include "backends/cpu/products/row_products.h"
#include "backends/cpu/products/row_reader.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

constexpr int64_t kPanelColumns = 512;  // a multiple of every decoder's step
constexpr int64_t kPanelOutputs = 64;
constexpr int64_t kPanelRows = 48;
constexpr int kMaxRows = kWidth == 16 ? 4 : 3;  // register tile: kMaxRows x kOutputs sums, kMaxRows x's, one weight
constexpr int kOutputs = 4;
static_assert(kPanelColumns % kFp4Step == 0 && kPanelColumns % kFp8Step == 0);

template <int kCount>
DI_LANE void store_all(const Vec* v, float* to) {
  for (int i = 0; i < kCount; ++i) store_vec(to + i * kWidth, v[i]);
}

// Columns [begin, end) of one weight row, in the order of the decoders, as fp32.
void decode_fp8_row(const uint8_t* w, const uint8_t* scale, int64_t begin, int64_t end, float* to) {
  int64_t i = begin;
  Vec v[4];
  for (; i + kFp8Step <= end; i += kFp8Step, to += kFp8Step) {
    prefetch(w + i + kPanelColumns);
    decode_fp8(w + i, v);
    for (int j = 0; j < 4; ++j) v[j] = times(v[j], broadcast(fp8_factor(scale[(i + j / 2 * 2 * kWidth) / 32])));
    store_all<4>(v, to);
  }
  if (i < end) {
    decode_fp8_tail(w + i, v);
    for (int j = 0; j < 2; ++j) v[j] = times(v[j], broadcast(fp8_factor(scale[i / 32])));
    store_all<2>(v, to);
  }
}

void decode_fp4_row(const uint8_t* w, const uint8_t* scale, int64_t begin, int64_t end, float* to) {
  int64_t i = begin;
  Vec v[8];
  for (; i + kFp4Step <= end; i += kFp4Step, to += kFp4Step) {
    prefetch(w + (i + kPanelColumns) / 2);
    decode_fp4(w + i / 2, scale + i / 32, v);
    store_all<8>(v, to);
  }
  if (i < end) {
    decode_fp4_tail(w + i / 2, scale + i / 32, (end - i) / 32, v);
    store_all<8>(v, to);
  }
}

void decode_weight_row(const WeightBlock& weight, int64_t n, int64_t begin, int64_t end, float* to) {
  const int64_t k = weight.k;
  switch (weight.format) {
    case WeightFormat::kFp8:
      return decode_fp8_row(weight.data + n * k, weight.scale + n / 32 * (k / 32), begin, end, to);
    case WeightFormat::kFp4:
      return decode_fp4_row(weight.data + n * k / 2, weight.scale + n * (k / 32), begin, end, to);
    case WeightFormat::kBf16:
      return widen_row(reinterpret_cast<const uint16_t*>(weight.data) + n * k + begin, end - begin, to);
  }
}

// One run of columns for M rows and N outputs.  w and x advance by kPanelColumns from row to row.
// lanes[m][n] holds the sums between runs, kPanelOutputs vectors a row.
struct Run {
  int64_t columns;
  bool first, last;
  int64_t stride;  // of out
};

template <int M, int N>
DI_LANE void tile_product(const Run& run, const float* w, const float* x, float* lanes, float* out) {
  Vec acc[M][N];
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) acc[m][n] = run.first ? zero() : load_vec(lanes + (m * kPanelOutputs + n) * kWidth);
  }
  for (int64_t i = 0; i < run.columns; i += kWidth) {
    Vec v[M];
    for (int m = 0; m < M; ++m) v[m] = load_vec(x + m * kPanelColumns + i);
    for (int n = 0; n < N; ++n) {
      const Vec weight = load_vec(w + n * kPanelColumns + i);
      for (int m = 0; m < M; ++m) acc[m][n] = multiply_add(weight, v[m], acc[m][n]);
    }
  }
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      if (run.last) {
        out[m * run.stride + n] = sum_lanes(acc[m][n]);
      } else {
        store_vec(lanes + (m * kPanelOutputs + n) * kWidth, acc[m][n]);
      }
    }
  }
}

template <int M>
void rows_product(const Run& run, int64_t outputs, const float* w, const float* x, float* lanes, float* out) {
  if (outputs == kOutputs) return tile_product<M, kOutputs>(run, w, x, lanes, out);
  for (int64_t n = 0; n < outputs; ++n) {
    tile_product<M, 1>(run, w + n * kPanelColumns, x, lanes + n * kWidth, out + n);
  }
}

// Rows of the next register tile: never a single row is left over, whose few chains would wait for each other.
DI_LANE int64_t next_rows(int64_t left) {
  return left <= kMaxRows ? left : left == kMaxRows + 1 ? kMaxRows - 1 : kMaxRows;
}

void panel_product(const Run& run, int64_t rows, int64_t outputs, const float* w, const float* x, float* lanes,
                   float* out) {
  for (int64_t n = 0; n < outputs; n += kOutputs) {
    const int64_t count = outputs - n < kOutputs ? outputs - n : kOutputs;
    for (int64_t m = 0, step; m < rows; m += step) {
      step = next_rows(rows - m);
      const float* wn = w + n * kPanelColumns;
      const float* xm = x + m * kPanelColumns;
      float* lane = lanes + (m * kPanelOutputs + n) * kWidth;
      float* to = out + m * run.stride + n;
      switch (step) {
        case 1:
          rows_product<1>(run, count, wn, xm, lane, to);
          break;
        case 2:
          rows_product<2>(run, count, wn, xm, lane, to);
          break;
        case 3:
          rows_product<3>(run, count, wn, xm, lane, to);
          break;
        default:
          rows_product<kMaxRows>(run, count, wn, xm, lane, to);
          break;
      }
    }
  }
}

}  // namespace

int64_t panel_scratch_floats() {
  return kPanelOutputs * kPanelColumns + kPanelRows * kPanelColumns + kPanelRows * kPanelOutputs * kWidth;
}

void multiply_panel(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                    float* scratch) {
  float* w = scratch;
  float* x = w + kPanelOutputs * kPanelColumns;
  float* lanes = x + kPanelRows * kPanelColumns;
  const int64_t columns = packed_columns(weight.format, weight.k);
  for (int64_t n = 0; n < weight.outputs; n += kPanelOutputs) {
    const int64_t outputs = weight.outputs - n < kPanelOutputs ? weight.outputs - n : kPanelOutputs;
    for (int64_t m = 0, count; m < rows; m += count) {
      const int64_t left = rows - m;
      count = left <= kPanelRows ? left : left == kPanelRows + 1 ? kPanelRows - 1 : kPanelRows;
      for (int64_t begin = 0; begin < columns; begin += kPanelColumns) {
        const int64_t end = begin + kPanelColumns < columns ? begin + kPanelColumns : columns;
        const int64_t weight_end = end < weight.k ? end : weight.k;
        for (int64_t i = 0; i < outputs; ++i)
          decode_weight_row(weight, n + i, begin, weight_end, w + i * kPanelColumns);
        for (int64_t i = 0; i < count; ++i)
          widen_row(packed + (m + i) * columns + begin, end - begin, x + i * kPanelColumns);
        const Run run{.columns = end - begin, .first = begin == 0, .last = end == columns, .stride = stride};
        panel_product(run, count, outputs, w, x, lanes, out + m * stride + n);
      }
    }
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
