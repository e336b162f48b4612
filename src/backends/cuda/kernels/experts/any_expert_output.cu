// As kernels/products/any_product_few.cu, for the rows of each expert, 8 kRowTiles at a time.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/experts/expert_rows.cuh"
#include "backends/cuda/kernels/products/pieces.cuh"
#include "backends/cuda/kernels/products/products.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kMostWarps = 16;  // = most parts
constexpr int kLeastWarps = 4;
constexpr int kOutputs = 16;  // of a tile

struct Arguments {
  ExpertStep step;
  int parts, tiles;  // of a block
};

template <LinearWeight::Format kFormat, int kRowTiles>
__global__ void __launch_bounds__(kMostWarps * 32, 1) expert_output(const Arguments arguments) {
  follow_previous_kernels();
  const ExpertStep& step = arguments.step;
  __shared__ float sums[kMostWarps][8 * kRowTiles][kOutputs + 1];
  const ExpertRows rows = rows_of_block(step);
  const int part = warp_id() % arguments.parts, tile = warp_id() / arguments.parts, lane = lane_id();
  const int64_t k = step.width, n = step.x.columns;
  const int64_t output = (int64_t{blockIdx.x} * arguments.tiles + tile) * kOutputs;
  const int64_t pieces = (k + kProductPiece - 1) / kProductPiece, end = (part + 1) * pieces / arguments.parts;
  for (int64_t first = 0; first < rows.count; first += 8 * kRowTiles) {
    const ExpertWeights& expert = step.experts[rows.expert];
    const bf16* hidden[kRowTiles];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const int64_t at = first + 8 * i + lane / 4;
      hidden[i] = at < rows.count ? step.hidden + rows.choice(at) * k : nullptr;
    }
    float d[kRowTiles][4] = {};
#pragma unroll 2
    for (int64_t piece = part * pieces / arguments.parts; piece < end; ++piece) {
      const int64_t column = piece * kProductPiece + lane % 4 * 16;
      uint32_t x[kRowTiles][8];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) load_bf16(x[i], hidden[i] + column, hidden[i] != nullptr && column < k);
      multiply_weight_piece<kFormat, kRowTiles>(d, expert.w2, output, column, x);
    }
    __syncthreads();  // the sums before have been read
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int r = 0; r < 4; ++r) sums[warp_id()][8 * i + 2 * (lane % 4) + r % 2][lane / 4 + 8 * (r / 2)] = d[i][r];
    __syncthreads();
    const int width = arguments.tiles * kOutputs;
    for (int i = static_cast<int>(threadIdx.x); i < 8 * kRowTiles * width; i += static_cast<int>(blockDim.x)) {
      const int row = i / width, at = i % width, of_tile = at / kOutputs;
      const int64_t column = int64_t{blockIdx.x} * width + at;
      if (first + row >= rows.count || column >= n) continue;
      float sum = sums[of_tile * arguments.parts][row][at % kOutputs];
      for (int p = 1; p < arguments.parts; ++p) sum += sums[of_tile * arguments.parts + p][row][at % kOutputs];
      step.y[rows.choice(first + row) * n + column] = round_to_bf16(sum);
    }
  }
}

template <LinearWeight::Format kFormat>
Status launch_format(const ExpertStep& step, Stream stream) {
  const int parts = product_parts(step.width), tiles = parts >= kLeastWarps ? 1 : kLeastWarps / parts;
  const Arguments arguments{step, parts, tiles};
  const dim3 grid(blocks(divided_up(step.x.columns, kOutputs * tiles)), most_active(step));
  const int threads = parts * tiles * 32;
  if (step.x.rows <= 8)
    return launch(expert_output<kFormat, 1>, "any_expert_output", grid, threads, 0, stream, arguments, kEarly);
  return launch(expert_output<kFormat, 4>, "any_expert_output", grid, threads, 0, stream, arguments, kEarly);
}

}  // namespace

Status any_expert_output(const ExpertStep& step, Stream stream) {
  if (step.x.rows == 0) return {};
  switch (step.format_out) {
    case LinearWeight::Format::kFp8:
      return launch_format<LinearWeight::Format::kFp8>(step, stream);
    case LinearWeight::Format::kFp4:
      return launch_format<LinearWeight::Format::kFp4>(step, stream);
    default:
      return launch_format<LinearWeight::Format::kBf16>(step, stream);
  }
}

}  // namespace deepinfer::cuda
