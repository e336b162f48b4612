// A block takes 32 hidden units of an expert, gate and up, for all of its rows, 8 kRowTiles at a time; a warp takes one
// part of K for all four tiles of 16 weight rows.  Then one warp a row: 32 units are one group of the FP8 rounding.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/experts/activation.cuh"
#include "backends/cuda/kernels/experts/expert_rows.cuh"
#include "backends/cuda/kernels/products/pieces.cuh"
#include "backends/cuda/kernels/products/products.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kMostWarps = 16;  // = most parts
constexpr int kUnits = 32;

struct Arguments {
  ExpertStep step;
  int parts;
};

template <LinearWeight::Format kFormat, int kRowTiles>
__global__ void __launch_bounds__(kMostWarps * 32, 1) expert_hidden(const Arguments arguments) {
  follow_previous_kernels();
  const ExpertStep& step = arguments.step;
  __shared__ float sums[kMostWarps][8][2 * kUnits];
  const ExpertRows rows = rows_of_block(step);
  const int part = warp_id(), lane = lane_id();
  const int64_t unit = int64_t{blockIdx.x} * kUnits, k = step.x.columns, top_k = max(step.weight.columns, int64_t{1});
  const int64_t pieces = (k + kProductPiece - 1) / kProductPiece, end = (part + 1) * pieces / arguments.parts;
  for (int64_t first = 0; first < rows.count; first += 8 * kRowTiles) {
    const ExpertWeights& expert = step.experts[rows.expert];
    const bf16* x_row[kRowTiles];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const int64_t at = first + 8 * i + lane / 4;
      const int64_t m = at < rows.count ? (rows.list == nullptr ? at : rows.list[at] / top_k) : -1;
      x_row[i] = m < 0 ? nullptr : row_of(step.x, m);
    }
    float d[4][kRowTiles][4] = {};
#pragma unroll 1
    for (int64_t piece = part * pieces / arguments.parts; piece < end; ++piece) {
      const int64_t column = piece * kProductPiece + lane % 4 * 16;
      uint32_t x[kRowTiles][8];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) load_bf16(x[i], x_row[i] + column, x_row[i] != nullptr && column < k);
#pragma unroll
      for (int tile = 0; tile < 4; ++tile)
        multiply_weight_piece<kFormat, kRowTiles>(d[tile], tile < 2 ? expert.w1 : expert.w3, unit + tile % 2 * 16,
                                                  column, x);
    }
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      __syncthreads();  // the sums before have been read
#pragma unroll
      for (int tile = 0; tile < 4; ++tile)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          sums[part][2 * (lane % 4) + r % 2][tile * 16 + lane / 4 + 8 * (r / 2)] = d[tile][i][r];
      __syncthreads();
      for (int row = warp_id(); row < 8; row += arguments.parts) {
        const int64_t at = first + 8 * i + row;
        if (at >= rows.count) break;
        float g = sums[0][row][lane], u = sums[0][row][kUnits + lane];
        for (int p = 1; p < arguments.parts; ++p) {
          g += sums[p][row][lane];
          u += sums[p][row][kUnits + lane];
        }
        const int64_t choice = rows.choice(at);
        const float weight = rows.list == nullptr ? 1.0f : row_of(step.weight, choice / top_k)[choice % top_k];
        const float h = activated(widen(round_to_bf16(g)), widen(round_to_bf16(u)), step.limit, weight);
        const uint32_t scale = fp8_scale(warp_max(fabsf(h)));
        step.hidden[choice * step.width + unit + lane] =
            round_to_bf16(e4m3_value(e4m3_code(h * reciprocal_of_scale(scale))) * e8m0_value(scale));
      }
    }
  }
}

template <LinearWeight::Format kFormat>
Status launch_format(const ExpertStep& step, Stream stream) {
  const Arguments arguments{step, product_parts(step.x.columns)};
  const dim3 grid(blocks(step.width / kUnits), most_active(step));
  const int threads = arguments.parts * 32;
  if (step.x.rows <= 8)
    return launch(expert_hidden<kFormat, 1>, "any_expert_hidden", grid, threads, 0, stream, arguments, kEarly);
  return launch(expert_hidden<kFormat, 2>, "any_expert_hidden", grid, threads, 0, stream, arguments, kEarly);
}

}  // namespace

Status any_expert_hidden(const ExpertStep& step, Stream stream) {
  DI_CHECK(step.width % kUnits == 0, "hidden units come in groups of 32");
  if (step.x.rows == 0) return {};
  switch (step.format_in) {
    case LinearWeight::Format::kFp8:
      return launch_format<LinearWeight::Format::kFp8>(step, stream);
    case LinearWeight::Format::kFp4:
      return launch_format<LinearWeight::Format::kFp4>(step, stream);
    default:
      return launch_format<LinearWeight::Format::kBf16>(step, stream);
  }
}

}  // namespace deepinfer::cuda
