// Matrix-vector products: decode with one activation row.  Weights go from memory through registers into the sums; four
// weight rows at a time hide the latency of the one chain of multiply-adds that each row's sum is.
#include "backends/cpu/products/row_products.h"
#include "backends/cpu/products/row_reader.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

constexpr int kRows = 4;
// Bytes ahead in its row that a weight is prefetched; at the end of a row it is the row kRows further down.
constexpr int64_t kAhead = 2048;

// Adds one step of R rows to their sums.
template <WeightFormat kFormat, int R>
DI_LANE void add_rows_step(const Rows& rows, const uint8_t* codes, const uint8_t* scale, const float* x, Vec* acc) {
#if defined(__AVX512F__)
  if constexpr (kFormat == WeightFormat::kFp4) add_fp4_step<R, 1, 0, true>(rows, codes, scale, 4, x, acc);
#endif
  if constexpr (!Reader<kFormat>::kScaledSteps) {
    typename Reader<kFormat>::Step steps[R];
    unroll<R>([&](auto r) __attribute__((always_inline)) {
      steps[r].read(codes + r * rows.row_bytes, scale + r * rows.row_scales);
    });
    add_steps<R, 1, 0>(steps, x, acc);
  }
}

// inside: there are more weights behind the rows, so that whole steps may read a few bytes behind them.
template <WeightFormat kFormat, int R>
DI_LANE void multiply_rows(const Rows& rows, bool inside, const float* x, float* out) {
  using Read = Reader<kFormat>;
  constexpr int64_t kStepBytes = Read::kStep * 64 / Read::kLine;
  constexpr int64_t kScaleColumns =
      kFormat == WeightFormat::kFp4 ? 32 : INT64_MAX;  // columns of a scale, if there are any
  const int64_t far_ahead = kAhead + (R - 1) * rows.row_bytes, row_bytes = rows.row_bytes;
  const uint8_t* codes = rows.codes;
  const uint8_t* scale = rows.scale;
  if constexpr (kFormat == WeightFormat::kFp4) {
    for (int64_t i = 0; i < R * rows.row_scales; i += 64) prefetch(scale + 2 * R * rows.row_scales + i);
  }
  Vec acc[R];
  unroll<R>([&](auto r) __attribute__((always_inline)) { acc[r] = zero(); });
  // Where whole steps read behind themselves, the last one of all is read as a part.
  const int64_t last = Read::kScaledSteps && !inside ? 1 : 0;
  int64_t left = rows.columns, bytes_left = row_bytes;
  for (; left >= Read::kLine + last; left -= Read::kLine, bytes_left -= 64, codes += 64) {
    const int64_t ahead = bytes_left > kAhead ? kAhead : far_ahead;
    for (int r = 0; r < R; ++r) prefetch(codes + r * row_bytes + ahead);
    for (int64_t i = 0; i < Read::kLine; i += Read::kStep) {
      add_rows_step<kFormat, R>(rows, codes + i * 64 / Read::kLine, scale + i / kScaleColumns, x + i, acc);
    }
    x += Read::kLine;
    scale += Read::kLine / kScaleColumns;
  }
  for (; left >= Read::kStep + last;
       left -= Read::kStep, codes += kStepBytes, x += Read::kStep, scale += Read::kStep / kScaleColumns) {
    add_rows_step<kFormat, R>(rows, codes, scale, x, acc);
  }
  if (left > 0) {
#if defined(__AVX512F__)
    if constexpr (Read::kScaledSteps) add_fp4_step<R, 1, 0, false>(rows, codes, scale, left / 32, x, acc);
#endif
    if constexpr (Read::kHasLastStep) {
      typename Read::LastStep steps[R];
      unroll<R>([&](auto r) __attribute__((always_inline)) {
        steps[r].read(codes + r * row_bytes, scale + r * rows.row_scales);
      });
      add_steps<R, 1, 0>(steps, x, acc);
    }
  }
  sum_all_lanes<R>(acc, out);
}

template <WeightFormat kFormat>
void multiply_all_rows(Rows rows, int64_t count, const float* x, float* out) {
  const auto advance = [&rows](int64_t by) {
    rows.codes += by * rows.row_bytes;
    rows.scale += by * rows.row_scales;
  };
  int64_t n = 0;
  for (; n + kRows <= count; n += kRows, advance(kRows))
    multiply_rows<kFormat, kRows>(rows, n + kRows < count, x, out + n);
  for (; n < count; ++n, advance(1)) multiply_rows<kFormat, 1>(rows, n + 1 < count, x, out + n);
}

void multiply_fp8(const WeightBlock& weight, const uint16_t* packed, float* out, float* x) {
  const int64_t k = weight.k;
  for (int64_t first = 0; first < weight.outputs; first += 32) {
    const int64_t left = weight.outputs - first;
    const uint8_t* scale = weight.scale + first / 32 * (k / 32);
    widen_row_scaled(packed, k, scale, x);
    const Rows rows{.codes = weight.data + first * k, .scale = scale, .row_bytes = k, .row_scales = 0, .columns = k};
    multiply_all_rows<WeightFormat::kFp8>(rows, left < 32 ? left : 32, x, out + first);
  }
}

}  // namespace

int64_t row_scratch_floats(int64_t k) {
  return packed_columns(WeightFormat::kFp4, k);
}

void multiply_row(const WeightBlock& weight, const uint16_t* packed, float* out, float* x) {
  if (weight.format == WeightFormat::kFp8) return multiply_fp8(weight, packed, out, x);
  const bool fp4 = weight.format == WeightFormat::kFp4;
  const int64_t k = weight.k;
  widen_row(packed, packed_columns(weight.format, k), x);
  const Rows rows{.codes = weight.data,
                  .scale = weight.scale,
                  .row_bytes = fp4 ? k / 2 : 2 * k,
                  .row_scales = fp4 ? k / 32 : 0,
                  .columns = k};
  if (fp4) return multiply_all_rows<WeightFormat::kFp4>(rows, weight.outputs, x, out);
  multiply_all_rows<WeightFormat::kBf16>(rows, weight.outputs, x, out);
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
