// Products with few activation rows: verification of drafts, experts.  Weights are decoded in registers as for one row
// and meet up to eight activation rows there.  Runs of kRunColumns keep the activations in the first-level cache; the
// sums wait as lanes from one run to the next, so that their order is that of one row alone.
#include "backends/cpu/products/row_products.h"
#include "backends/cpu/products/row_reader.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

constexpr int64_t kRunColumns = 512;  // a multiple of every decoder's step
constexpr int kPartRows = 8;          // most rows that meet the weights together
constexpr int64_t kTileOutputs = 32;  // outputs that share FP8 scales
static_assert(kRunColumns % kFp4Step == 0 && kRunColumns % kFp8Step == 0);

// Weight rows side by side.  The more sums, the better they hide the latency of a multiply-add and share what is
// loaded; AVX2 has registers for twelve, AVX-512 for twenty-four.  FP4 steps scaled one by one take two for each sum.
template <WeightFormat kFormat>
constexpr int rows_beside(int activations) {
  if (activations <= 2) return 4;
  if (kWidth == 8) return activations == 3 && kFormat == WeightFormat::kFp8 ? 4 : activations <= 6 ? 2 : 1;
  if (Reader<kFormat>::kScaledSteps) return 2;
  return activations == 3 ? 8 : activations <= 6 ? 4 : 2;
}

struct Run {
  bool first, last;  // of the columns
  bool inside;       // there are more weights behind the rows: whole steps may read a few bytes behind them
  int64_t stride;    // of out
};

// R rows of the weight times M rows of x, [M][kRunColumns].  lanes: [M][R] vectors.
template <WeightFormat kFormat, int R, int M>
DI_LANE void multiply_run(const Run& run, const Rows& rows, const float* x, float* lanes, float* out) {
  using Read = Reader<kFormat>;
  constexpr int64_t kStepBytes = Read::kStep * 64 / Read::kLine;
  constexpr int64_t kStepScales = kFormat == WeightFormat::kFp4 ? Read::kStep / 32 : 0;
  Vec acc[R * M];
  if (run.first) {
    unroll<R * M>([&](auto i) __attribute__((always_inline)) { acc[i] = zero(); });
  } else {
    unroll<R * M>([&](auto i) __attribute__((always_inline)) { acc[i] = load_vec(lanes + i * kWidth); });
  }
  const uint8_t* codes = rows.codes;
  const uint8_t* scale = rows.scale;
  int64_t left = rows.columns;
  // Where whole steps read behind themselves, the last one of all is read as a part.
  const int64_t kept = Read::kScaledSteps && run.last && !run.inside ? 1 : 0;
  for (; left >= Read::kStep + kept; left -= Read::kStep, codes += kStepBytes, scale += kStepScales, x += Read::kStep) {
    unroll<R>([&](auto r) __attribute__((always_inline)) {
      prefetch(codes + r * rows.row_bytes + kRunColumns * 64 / Read::kLine);
    });
#if defined(__AVX512F__)
    if constexpr (Read::kScaledSteps) add_fp4_step<R, M, kRunColumns, true>(rows, codes, scale, 4, x, acc);
#endif
    if constexpr (!Read::kScaledSteps) {
      typename Read::Step steps[R];
      unroll<R>([&](auto r) __attribute__((always_inline)) {
        steps[r].read(codes + r * rows.row_bytes, scale + r * rows.row_scales);
      });
      add_steps<R, M, kRunColumns>(steps, x, acc);
    }
  }
  if (left > 0) {
#if defined(__AVX512F__)
    if constexpr (Read::kScaledSteps) {
      add_fp4_step<R, M, kRunColumns, false>(rows, codes, scale, left / 32, x, acc);
    }
#endif
    if constexpr (Read::kHasLastStep) {
      typename Read::LastStep steps[R];
      unroll<R>([&](auto r) __attribute__((always_inline)) {
        steps[r].read(codes + r * rows.row_bytes, scale + r * rows.row_scales);
      });
      add_steps<R, M, kRunColumns>(steps, x, acc);
    }
  }
  if (run.last) {
    float sum[R * M];
    sum_all_lanes<R * M>(acc, sum);
    unroll<M>([&](auto m) __attribute__((always_inline)) {
      __builtin_memcpy(out + m * run.stride, sum + m * R, R * sizeof(float));
    });
  } else {
    unroll<R * M>([&](auto i) __attribute__((always_inline)) { store_vec(lanes + i * kWidth, acc[i]); });
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

// widened: x holds the activations already.
template <WeightFormat kFormat, int M>
void multiply_tile(const WeightBlock& weight, int64_t first, const uint16_t* packed, bool widened, float* out,
                   int64_t stride, float* scratch) {
  using Read = Reader<kFormat>;
  constexpr int R = rows_beside<kFormat>(M);
  constexpr bool kHasRowScales = kFormat == WeightFormat::kFp4;
  const int64_t k = weight.k, columns = packed_columns(kFormat, k);
  const int64_t row_bytes = k * 64 / Read::kLine, row_scales = kHasRowScales ? k / 32 : 0;
  const uint8_t* tile_scale = kFormat == WeightFormat::kFp8 ? weight.scale + first / 32 * (k / 32) : nullptr;
  float* x = scratch;
  float* lanes = x + M * kRunColumns;
  const int64_t outputs = weight.outputs - first < kTileOutputs ? weight.outputs - first : kTileOutputs;
  for (int64_t begin = 0; begin < columns; begin += kRunColumns) {
    const int64_t end = begin + kRunColumns < columns ? begin + kRunColumns : columns;
    const int64_t weight_end = end < k ? end : k;
    if (!widened) widen_run<kFormat, M>(packed, columns, begin, end, tile_scale, x);
    Run run{.first = begin == 0, .last = end == columns, .inside = true, .stride = stride};
    Rows rows{.codes = weight.data + first * row_bytes + begin * 64 / Read::kLine,
              .scale = kHasRowScales ? weight.scale + first * row_scales + begin / 32 : nullptr,
              .row_bytes = row_bytes,
              .row_scales = row_scales,
              .columns = weight_end - begin};
    int64_t n = 0;
    for (; n + R <= outputs; n += R, rows.codes += R * row_bytes, rows.scale += R * row_scales) {
      run.inside = first + n + R < weight.outputs;
      multiply_run<kFormat, R, M>(run, rows, x, lanes + n * M * kWidth, out + n);
    }
    for (; n < outputs; ++n, rows.codes += row_bytes, rows.scale += row_scales) {
      run.inside = first + n + 1 < weight.outputs;
      multiply_run<kFormat, 1, M>(run, rows, x, lanes + n * M * kWidth, out + n);
    }
  }
}

template <WeightFormat kFormat>
void multiply_part(const WeightBlock& weight, int64_t first, const uint16_t* packed, int64_t rows, bool widened,
                   float* out, int64_t stride, float* scratch) {
  switch (rows) {
    case 2:
      return multiply_tile<kFormat, 2>(weight, first, packed, widened, out, stride, scratch);
    case 3:
      return multiply_tile<kFormat, 3>(weight, first, packed, widened, out, stride, scratch);
    case 4:
      return multiply_tile<kFormat, 4>(weight, first, packed, widened, out, stride, scratch);
    case 5:
      return multiply_tile<kFormat, 5>(weight, first, packed, widened, out, stride, scratch);
    case 6:
      return multiply_tile<kFormat, 6>(weight, first, packed, widened, out, stride, scratch);
    case 7:
      return multiply_tile<kFormat, 7>(weight, first, packed, widened, out, stride, scratch);
    default:
      return multiply_tile<kFormat, kPartRows>(weight, first, packed, widened, out, stride, scratch);
  }
}

// In parts of about as many rows each, which meet a tile of outputs while its weights are near.
template <WeightFormat kFormat>
void multiply_format(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                     float* scratch) {
  const int64_t columns = packed_columns(kFormat, weight.k), parts = (rows + kPartRows - 1) / kPartRows;
  const bool same_x = kFormat != WeightFormat::kFp8 && columns <= kRunColumns && parts == 1;  // for all tiles
  for (int64_t first = 0; first < weight.outputs; first += kTileOutputs) {
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t row = rows * part / parts, end = rows * (part + 1) / parts;
      multiply_part<kFormat>(weight, first, packed + row * columns, end - row, same_x && first > 0,
                             out + row * stride + first, stride, scratch);
    }
  }
}

}  // namespace

int64_t few_scratch_floats() {
  return kPartRows * kRunColumns + kTileOutputs * kPartRows * kWidth;
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
