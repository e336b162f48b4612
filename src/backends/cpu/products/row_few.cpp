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

// Weight rows side by side: enough independent sums to hide the latency of a multiply-add.  With 32 registers they also
// meet each vector of x together.
constexpr int rows_beside(int activations) {
  return activations <= 2 ? 4 : activations <= 4 ? 2 : kWidth == 16 ? 2 : 1;
}

struct Run {
  bool first, last;  // of the columns
  int64_t stride;    // of out
};

// acc[r * M + m] += the decoded step v[r] of R rows of the weight times x of M rows.
template <int kVectors, bool kScaled, int R, int M>
DI_LANE void add_steps(const Vec (*v)[8], const Vec* factors, const float* x, Vec* acc) {
  for (int m = 0; m < M; ++m, x += kRunColumns) {
    // x is read from memory again and again: kept in registers it would push the sums out of them.
    __asm__("" : "+r"(x));
    Vec sum[R];
    for (int i = 0; i < kVectors; ++i) {
      Vec at = load_vec(x + i * kWidth);
      if (R > 1) __asm__("" : "+v"(at));  // one load for all rows of the weight
      for (int r = 0; r < R; ++r) {
        if (kScaled) {
          sum[r] = i == 0 ? times(v[r][i], at) : multiply_add(v[r][i], at, sum[r]);
        } else {
          acc[r * M + m] = multiply_add(v[r][i], at, acc[r * M + m]);
        }
      }
    }
    if (!kScaled) continue;
    for (int r = 0; r < R; ++r) acc[r * M + m] = multiply_add(sum[r], factors[r], acc[r * M + m]);
  }
}

#if defined(__AVX512F__)
// A whole FP4 step of R rows of the weight: vectors are decoded as they are needed, and the sums of the step fill the
// registers.
template <int R, int M>
DI_LANE void add_whole_fp4_step(const Rows& rows, const uint8_t* codes, const uint8_t* scale, const float* x,
                                Vec* acc) {
  Vec sum[R * M];
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    Vec v[R][2];
    for (int r = 0; r < R; ++r) decode_fp4_pair(codes + r * rows.row_bytes, pair, v[r]);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      for (int i = 0; i < 2; ++i) {
        Vec at = load_vec(x + m * kRunColumns + (2 * pair + i) * kWidth);
        __asm__("" : "+v"(at));  // one load for all rows of the weight
        for (int r = 0; r < R; ++r) {
          Vec& s = sum[r * M + m];
          s = pair + i == 0 ? times(v[r][i], at) : multiply_add(v[r][i], at, s);
        }
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    const Vec factors = fp4_factors(scale + r * rows.row_scales);
    for (int m = 0; m < M; ++m) acc[r * M + m] = multiply_add(sum[r * M + m], factors, acc[r * M + m]);
  }
}
#endif

// R rows of the weight times M rows of x, [M][kRunColumns].  lanes: [R][M] vectors.
template <WeightFormat kFormat, int R, int M>
DI_LANE void multiply_run(const Run& run, const Rows& rows, const float* x, float* lanes, float* out) {
  using Read = Reader<kFormat>;
  constexpr int64_t kStepBytes = Read::kStep * 64 / Read::kLine;
  constexpr int64_t kStepScales = kFormat == WeightFormat::kFp4 ? Read::kStep / 32 : 0;
  constexpr int kTogether = kWidth == 16 ? R : 1;  // rows decoded before any of them meets x
  const bool first = run.first, last = run.last;
  const int64_t stride = run.stride;
  Vec acc[R * M];
  if (first) {
    for (int i = 0; i < R * M; ++i) acc[i] = zero();
  } else {
    for (int i = 0; i < R * M; ++i) acc[i] = load_vec(lanes + i * kWidth);
  }
  const uint8_t* codes = rows.codes;
  const uint8_t* scale = rows.scale;
  int64_t left = rows.columns;
  Vec v[kTogether][8], factors[kTogether];
  // The last step of a row is read as a part even where it is whole, if reading whole ones touches what is behind.
  const int64_t kept = Read::kScaledSteps && last ? 1 : 0;
  for (; left >= Read::kStep + kept; left -= Read::kStep, codes += kStepBytes, scale += kStepScales, x += Read::kStep) {
#if defined(__AVX512F__)
    if constexpr (kFormat == WeightFormat::kFp4) {
      for (int r = 0; r < R; ++r) prefetch(codes + r * rows.row_bytes + kRunColumns * 64 / Read::kLine);
      add_whole_fp4_step<R, M>(rows, codes, scale, x, acc);
      continue;
    }
#endif
    for (int r = 0; r < R; r += kTogether) {
      for (int i = 0; i < kTogether; ++i) {
        const uint8_t* from = codes + (r + i) * rows.row_bytes;
        prefetch(from + kRunColumns * 64 / Read::kLine);
        Read::decode(from, scale + (r + i) * rows.row_scales, v[i]);
        factors[i] = Read::factors(scale + (r + i) * rows.row_scales);
      }
      add_steps<Read::kVectors, Read::kScaledSteps, kTogether, M>(v, factors, x, acc + r * M);
    }
  }
  if (left > 0) {
    for (int r = 0; r < R; r += kTogether) {
      for (int i = 0; i < kTogether; ++i) {
        const uint8_t* row_scale = scale + (r + i) * rows.row_scales;
        Read::decode_last(codes + (r + i) * rows.row_bytes, row_scale, left, v[i]);
        factors[i] = Read::factors_last(row_scale, left);
      }
      add_steps<Read::kLastVectors, Read::kScaledSteps, kTogether, M>(v, factors, x, acc + r * M);
    }
  }
  if (last) {
    float sum[R * M];
    sum_all_lanes<R * M>(acc, sum);
    for (int i = 0; i < R * M; ++i) out[i % M * stride + i / M] = sum[i];
  } else {
    for (int i = 0; i < R * M; ++i) store_vec(lanes + i * kWidth, acc[i]);
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
  constexpr int R = rows_beside(M);
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
