// Matrix-vector products: decode with one activation row.  Weights go from memory through registers into the sums; four
// weight rows at a time hide the latency of the one chain of multiply-adds that each row's sum is.
#include "backends/cpu/products/row_products.h"
#include "backends/cpu/products/row_reader.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

constexpr int kRows = 4;
// Bytes ahead in its row that a weight is prefetched; at the end of a row it is the row kRows further down.
constexpr int64_t kAhead = 2048;

template <WeightFormat kFormat, int R>
DI_LANE void multiply_rows(const Rows& rows, const float* x, float* out) {
  using Read = Reader<kFormat>;
  constexpr int64_t kStepBytes = Read::kStep * 64 / Read::kLine;
  constexpr int64_t kScaleColumns =
      kFormat == WeightFormat::kFp4 ? 32 : INT64_MAX;  // columns of a scale, if there are any
  // x of a whole row, but for the few vectors of a tail that a step reads less.
  constexpr int kTailVectors = kFormat == WeightFormat::kFp8 ? Read::kVectors / 2 : Read::kVectors;
  const int64_t far_ahead = kAhead + (R - 1) * rows.row_bytes, row_bytes = rows.row_bytes;
  const uint8_t* codes = rows.codes;
  const uint8_t* scale = rows.scale;
  if constexpr (kFormat == WeightFormat::kFp4) {
    for (int64_t i = 0; i < R * rows.row_scales; i += 64) prefetch(scale + 2 * R * rows.row_scales + i);
  }
  Vec acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero();
  Vec v[Read::kVectors];
  int64_t left = rows.columns, bytes_left = row_bytes;
  for (; left >= Read::kLine; left -= Read::kLine, bytes_left -= 64, codes += 64) {
    const int64_t ahead = bytes_left > kAhead ? kAhead : far_ahead;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const uint8_t* p = codes + r * row_bytes;
      prefetch(p + ahead);
      for (int64_t i = 0; i < Read::kLine; i += Read::kStep) {
        Read::decode(p + i * 64 / Read::kLine, scale + r * rows.row_scales + i / kScaleColumns, v);
        acc[r] = accumulate<Read::kVectors>(v, x + i, acc[r]);
      }
    }
    x += Read::kLine;
    scale += Read::kLine / kScaleColumns;
  }
  for (; left >= Read::kStep;
       left -= Read::kStep, codes += kStepBytes, x += Read::kStep, scale += Read::kStep / kScaleColumns) {
    for (int r = 0; r < R; ++r) {
      Read::decode(codes + r * row_bytes, scale + r * rows.row_scales, v);
      acc[r] = accumulate<Read::kVectors>(v, x, acc[r]);
    }
  }
  if (left > 0) {
    for (int r = 0; r < R; ++r) {
      Read::decode_tail(codes + r * row_bytes, scale + r * rows.row_scales, left, v);
      acc[r] = accumulate<kTailVectors>(v, x, acc[r]);
    }
  }
  for (int r = 0; r < R; ++r) out[r] = sum_lanes(acc[r]);
}

template <WeightFormat kFormat>
void multiply_all_rows(Rows rows, int64_t count, const float* x, float* out) {
  const auto advance = [&rows](int64_t by) {
    rows.codes += by * rows.row_bytes;
    rows.scale += by * rows.row_scales;
  };
  int64_t n = 0;
  for (; n + kRows <= count; n += kRows, advance(kRows)) multiply_rows<kFormat, kRows>(rows, x, out + n);
  for (; n < count; ++n, advance(1)) multiply_rows<kFormat, 1>(rows, x, out + n);
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
