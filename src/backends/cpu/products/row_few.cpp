// Products with two to eight activation rows: verification of drafts, experts with few rows.  Weights are decoded in
// registers as for one row and meet every activation row there.  Runs of kRunColumns keep the activations in the
// first-level cache; the sums wait as lanes from one run to the next, so that their order is that of one row alone.
#include "backends/cpu/products/row_products.h"
#include "backends/cpu/products/row_reader.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

constexpr int64_t kRunColumns = 512;  // a multiple of every decoder's step
constexpr int64_t kTileOutputs = 32;  // outputs that share FP8 scales
static_assert(kRunColumns % kFp4Step == 0 && kRunColumns % kFp8Step == 0);

// Weight rows side by side: enough independent sums to hide the latency of a multiply-add.
constexpr int rows_beside(int activations) {
  return activations <= 2 ? 4 : activations <= 4 ? 2 : kWidth == 16 ? 2 : 1;
}

struct Run {
  bool first, last;  // of the columns
  int64_t stride;    // of out
};

// R rows of the weight times M rows of x, [M][kRunColumns].  lanes: [R][M] vectors.
template <WeightFormat kFormat, int R, int M>
DI_LANE void multiply_run(const Run& run, const Rows& rows, const float* x, float* lanes, float* out) {
  using Read = Reader<kFormat>;
  constexpr int64_t kStepBytes = Read::kStep * 64 / Read::kLine;
  constexpr int64_t kStepScales = kFormat == WeightFormat::kFp4 ? Read::kStep / 32 : 0;
  constexpr int kTailVectors = kFormat == WeightFormat::kFp8 ? Read::kVectors / 2 : Read::kVectors;
  Vec acc[R][M];
  for (int r = 0; r < R; ++r) {
    for (int m = 0; m < M; ++m) acc[r][m] = run.first ? zero() : load_vec(lanes + (r * M + m) * kWidth);
  }
  const uint8_t* codes = rows.codes;
  const uint8_t* scale = rows.scale;
  Vec v[Read::kVectors];
  int64_t left = rows.columns;
  for (; left >= Read::kStep; left -= Read::kStep, codes += kStepBytes, scale += kStepScales, x += Read::kStep) {
    for (int r = 0; r < R; ++r) {
      prefetch(codes + r * rows.row_bytes + kRunColumns * 64 / Read::kLine);
      Read::decode(codes + r * rows.row_bytes, scale + r * rows.row_scales, v);
      for (int m = 0; m < M; ++m) acc[r][m] = accumulate<Read::kVectors>(v, x + m * kRunColumns, acc[r][m]);
    }
  }
  if (left > 0) {
    for (int r = 0; r < R; ++r) {
      Read::decode_tail(codes + r * rows.row_bytes, scale + r * rows.row_scales, left, v);
      for (int m = 0; m < M; ++m) acc[r][m] = accumulate<kTailVectors>(v, x + m * kRunColumns, acc[r][m]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int m = 0; m < M; ++m) {
      if (run.last) {
        out[m * run.stride + r] = sum_lanes(acc[r][m]);
      } else {
        store_vec(lanes + (r * M + m) * kWidth, acc[r][m]);
      }
    }
  }
}

// Columns [begin, end) of M packed rows as fp32, [M][kRunColumns]; FP8: times their scales.
template <WeightFormat kFormat, int M>
void widen_run(const uint16_t* packed, int64_t columns, int64_t begin, int64_t end, const uint8_t* scale, float* x) {
  for (int m = 0; m < M; ++m) {
    const uint16_t* from = packed + m * columns + begin;
    if constexpr (kFormat == WeightFormat::kFp8) {
      widen_row_scaled(from, end - begin, scale + begin / 32, x + m * kRunColumns);
    } else {
      widen_row(from, end - begin, x + m * kRunColumns);
    }
  }
}

template <WeightFormat kFormat, int M>
void multiply_tile(const WeightBlock& weight, int64_t first, int64_t outputs, const uint16_t* packed, float* out,
                   int64_t stride, float* scratch) {
  using Read = Reader<kFormat>;
  constexpr int R = rows_beside(M);
  constexpr bool kHasRowScales = kFormat == WeightFormat::kFp4;
  const int64_t k = weight.k, columns = packed_columns(kFormat, k);
  const int64_t row_bytes = k * 64 / Read::kLine, row_scales = kHasRowScales ? k / 32 : 0;
  const uint8_t* tile_scale = kFormat == WeightFormat::kFp8 ? weight.scale + first / 32 * (k / 32) : nullptr;
  float* x = scratch;
  float* lanes = x + M * kRunColumns;
  for (int64_t begin = 0; begin < columns; begin += kRunColumns) {
    const int64_t end = begin + kRunColumns < columns ? begin + kRunColumns : columns;
    const int64_t weight_end = end < k ? end : k;
    widen_run<kFormat, M>(packed, columns, begin, end, tile_scale, x);
    const Run run{.first = begin == 0, .last = end == columns, .stride = stride};
    Rows rows{.codes = weight.data + first * row_bytes + begin * 64 / Read::kLine,
              .scale = kHasRowScales ? weight.scale + first * row_scales + begin / 32 : nullptr,
              .row_bytes = row_bytes,
              .row_scales = row_scales,
              .columns = weight_end - begin};
    int64_t n = 0;
    for (; n + R <= outputs; n += R, rows.codes += R * row_bytes, rows.scale += R * row_scales) {
      multiply_run<kFormat, R, M>(run, rows, x, lanes + n * M * kWidth, out + n);
    }
    for (; n < outputs; ++n, rows.codes += row_bytes, rows.scale += row_scales) {
      multiply_run<kFormat, 1, M>(run, rows, x, lanes + n * M * kWidth, out + n);
    }
  }
}

template <WeightFormat kFormat, int M>
void multiply_tiles(const WeightBlock& weight, const uint16_t* packed, float* out, int64_t stride, float* scratch) {
  for (int64_t first = 0; first < weight.outputs; first += kTileOutputs) {
    const int64_t left = weight.outputs - first;
    multiply_tile<kFormat, M>(weight, first, left < kTileOutputs ? left : kTileOutputs, packed, out + first, stride,
                              scratch);
  }
}

template <WeightFormat kFormat>
void multiply_format(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                     float* scratch) {
  switch (rows) {
    case 2:
      return multiply_tiles<kFormat, 2>(weight, packed, out, stride, scratch);
    case 3:
      return multiply_tiles<kFormat, 3>(weight, packed, out, stride, scratch);
    case 4:
      return multiply_tiles<kFormat, 4>(weight, packed, out, stride, scratch);
    case 5:
      return multiply_tiles<kFormat, 5>(weight, packed, out, stride, scratch);
    case 6:
      return multiply_tiles<kFormat, 6>(weight, packed, out, stride, scratch);
    case 7:
      return multiply_tiles<kFormat, 7>(weight, packed, out, stride, scratch);
    default:
      return multiply_tiles<kFormat, kFewRows>(weight, packed, out, stride, scratch);
  }
}

}  // namespace

int64_t few_scratch_floats() {
  return kFewRows * kRunColumns + kTileOutputs * kFewRows * kWidth;
}

void multiply_few(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                  float* scratch) {
  switch (weight.format) {
    case WeightFormat::kFp8:
      return multiply_format<WeightFormat::kFp8>(weight, packed, rows, out, stride, scratch);
    case WeightFormat::kFp4:
      return multiply_format<WeightFormat::kFp4>(weight, packed, rows, out, stride, scratch);
    case WeightFormat::kBf16:
      return multiply_format<WeightFormat::kBf16>(weight, packed, rows, out, stride, scratch);
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
