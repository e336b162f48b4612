// A warp takes one part of K for 16 outputs and all rows, straight from memory into fragments.  A block holds the warps
// of all parts of one or a few tiles of outputs and adds the parts.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/products/pieces.cuh"
#include "backends/cuda/kernels/products/products.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kMostWarps = 16;  // = most parts
constexpr int kLeastWarps = 4;
constexpr int kOutputs = 16;  // of a tile

struct Arguments {
  Product product;
  int parts, tiles;  // of a block
};

template <LinearWeight::Format kFormat, int kRowTiles>
__global__ void __launch_bounds__(kMostWarps * 32, 1) product_few(const Arguments arguments) {
  follow_previous_kernels();
  const Product& product = arguments.product;
  const LinearWeight& weight = product.weight;
  __shared__ float sums[kMostWarps][8 * kRowTiles][kOutputs + 1];
  const int part = warp_id() % arguments.parts, tile = warp_id() / arguments.parts, lane = lane_id();
  const int64_t rows = product.x.rows, n = weight.n / product.groups, k = weight.k;
  const int64_t group_first = blockIdx.y * n;
  const int64_t first = (int64_t{blockIdx.x} * arguments.tiles + tile) * kOutputs;  // in the group
  if (first < n) {
    const int64_t pieces = (k + kProductPiece - 1) / kProductPiece;
    const int64_t end = (part + 1) * pieces / arguments.parts;
    float d[kRowTiles][4] = {};
#pragma unroll 2
    for (int64_t piece = part * pieces / arguments.parts; piece < end; ++piece) {
      const int64_t column = piece * kProductPiece + lane % 4 * 16;
      uint32_t x[kRowTiles][8];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const int64_t row = 8 * i + lane / 4;
        load_bf16(x[i], product.x.data + row * product.x.stride + blockIdx.y * k + column, row < rows && column < k);
      }
      multiply_weight_piece<kFormat, kRowTiles>(d, weight, group_first + first, column, x);
    }
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int r = 0; r < 4; ++r) sums[warp_id()][8 * i + 2 * (lane % 4) + r % 2][lane / 4 + 8 * (r / 2)] = d[i][r];
  }
  __syncthreads();
  const int64_t count = rows * arguments.tiles * kOutputs;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int64_t row = i / (arguments.tiles * kOutputs);
    const int at = static_cast<int>(i % (arguments.tiles * kOutputs)), of_tile = at / kOutputs;
    const int64_t output = int64_t{blockIdx.x} * arguments.tiles * kOutputs + at;
    if (output >= n) continue;
    float sum = sums[of_tile * arguments.parts][row][at % kOutputs];
    for (int p = 1; p < arguments.parts; ++p) sum += sums[of_tile * arguments.parts + p][row][at % kOutputs];
    if (product.y32.data != nullptr) {
      row_of(product.y32, row)[group_first + output] = sum;
    } else {
      row_of(product.y, row)[group_first + output] = round_to_bf16(sum);
    }
  }
}

template <LinearWeight::Format kFormat>
Status launch_format(const Product& product, Stream stream) {
  const int parts = product_parts(product.weight.k), tiles = parts >= kLeastWarps ? 1 : kLeastWarps / parts;
  const Arguments arguments{product, parts, tiles};
  const dim3 grid(blocks(divided_up(product.weight.n / product.groups, kOutputs * tiles)),
                  static_cast<unsigned>(product.groups));
  const int threads = parts * tiles * 32;
  if (product.x.rows <= 8)
    return launch(product_few<kFormat, 1>, "any_product_few", grid, threads, 0, stream, arguments, kEarly);
  if (product.x.rows <= 16)
    return launch(product_few<kFormat, 2>, "any_product_few", grid, threads, 0, stream, arguments, kEarly);
  return launch(product_few<kFormat, 4>, "any_product_few", grid, threads, 0, stream, arguments, kEarly);
}

}  // namespace

Status any_product_few(const Product& product, Stream stream) {
  DI_CHECK(product.x.rows <= kProductFewRows, "this kernel takes few rows");
  if (product.x.rows == 0) return {};
  switch (product.weight.format) {
    case LinearWeight::Format::kFp8:
      return launch_format<LinearWeight::Format::kFp8>(product, stream);
    case LinearWeight::Format::kFp4:
      return launch_format<LinearWeight::Format::kFp4>(product, stream);
    default:
      return launch_format<LinearWeight::Format::kBf16>(product, stream);
  }
}

}  // namespace deepinfer::cuda
