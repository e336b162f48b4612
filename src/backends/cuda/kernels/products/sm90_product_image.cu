// A warp takes 8 rows of x by four pieces of 64 columns; its shared memory turns each round.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/products/sm90_pieces.cuh"
#include "backends/cuda/kernels/products/sm90_product_image.cuh"
#include "backends/cuda/kernels/products/sm90_product_image.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kWarps = 8, kPieces = 4;  // of a warp at once

struct Arguments {
  const uint16_t* x;
  std::byte* image;
  int64_t x_stride;
  int rows, row_groups, k, pieces, units;  // units: of kPieces pieces, in a row
};

template <Format kFormat>
__global__ void __launch_bounds__(kWarps * 32) product_image(const Arguments arguments) {
  __shared__ __align__(1024) std::byte memory[kWarps][kPieces][kImageGroupBytes];
  follow_previous_kernels();
  const int unit = static_cast<int>(blockIdx.x) * kWarps + warp_id(), group = static_cast<int>(blockIdx.z);
  if (unit >= arguments.units) return;
  const int lane = lane_id(), rows_at = static_cast<int>(blockIdx.y), row = rows_at * kImageRows + lane / 4;
  const auto* const from = reinterpret_cast<const uint4*>(arguments.x + row * arguments.x_stride +
                                                          int64_t{group} * arguments.k + lane % 4 * 16);
  const int first = unit * kPieces, count = min(kPieces, arguments.pieces - first);
  uint4 v[kPieces][2];
#pragma unroll
  for (int i = 0; i < kPieces; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      v[i][j] = i < count && row < arguments.rows ? from[(first + i) * 8 + j] : make_uint4(0, 0, 0, 0);
  const uint32_t to = shared_address(memory[warp_id()]);
  const uint32_t at = to + static_cast<uint32_t>(lane % 8 * 128);
#pragma unroll
  for (int i = 0; i < kPieces; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint4 pairs = paired<kFormat>(v[i][j]);
      store_matrices(at + static_cast<uint32_t>(i * kImageGroupBytes + ((lane / 8 + 4 * j) ^ (lane % 8)) * 16), pairs.x,
                     pairs.y, pairs.z, pairs.w);
    }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (i >= count) break;
    auto* const out = reinterpret_cast<uint4*>(
        arguments.image + image_place(group, arguments.pieces, first + i, arguments.row_groups, rows_at));
#pragma unroll
    for (int j = 0; j < 2; ++j)
      out[j * 32 + lane] = load_shared(to + static_cast<uint32_t>(i * kImageGroupBytes + (j * 32 + lane) * 16));
  }
}

}  // namespace

Status sm90_product_image(const Product& product, std::byte* image, Stream stream) {
  Arguments arguments;
  arguments.x = reinterpret_cast<const uint16_t*>(product.x.data);
  arguments.image = image;
  arguments.x_stride = product.x.stride;
  arguments.rows = static_cast<int>(product.x.rows);
  arguments.row_groups = static_cast<int>(divided_up(product.x.rows, kImageRows));
  arguments.k = static_cast<int>(product.weight.k);
  arguments.pieces = static_cast<int>(product_pieces(product.weight.k));
  arguments.units = static_cast<int>(divided_up(arguments.pieces, kPieces));
  const dim3 grid(blocks(divided_up(arguments.units, kWarps)), blocks(arguments.row_groups), blocks(product.groups));
  const auto kernel = product.weight.format == Format::kFp8 ? product_image<Format::kFp8> : product_image<Format::kBf16>;
  return launch(kernel, "sm90_product_image", grid, kWarps * 32, 0, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
