// A block takes 128 outputs by 64 rows of x, a piece of K at a time: weights become bf16 on their way into shared
// memory, the next piece is on its way from memory while this one is multiplied.  Each of the 8 warps has 32 outputs by
// 32 rows.  The accumulators begin anew with every part of K and are added to the sums at its end.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/products/pieces.cuh"
#include "backends/cuda/kernels/products/products.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kOutputs = 128, kRows = 64;  // of a block
constexpr int kPitch = 9;                  // 16-byte units from a row in shared memory to the next: no bank conflicts

struct Arguments {
  Product product;
  int parts;
};

// What a thread carries of the next piece: two quarters of weight rows and one of a row of x.
struct Next {
  uint32_t weights[2][8];
  uint32_t x[8];
};

template <LinearWeight::Format kFormat>
__device__ __forceinline__ void fetch(Next& next, const Product& product, int64_t first_output, int64_t end_output,
                                      int64_t first_row, int64_t piece) {
  const int quarter = static_cast<int>(threadIdx.x) % 4, row = static_cast<int>(threadIdx.x) / 4;
  const int64_t column = piece * kProductPiece + quarter * 16, k = product.weight.k;
  LinearWeight weight = product.weight;
  weight.n = end_output;
#pragma unroll
  for (int i = 0; i < 2; ++i) load_weight<kFormat>(next.weights[i], weight, first_output + row + 64 * i, column);
  load_bf16(next.x, product.x.data + (first_row + row) * product.x.stride + blockIdx.z * k + column,
            first_row + row < product.x.rows && column < k);
}

__device__ __forceinline__ void put(uint4* row, int quarter, const uint32_t (&pairs)[8]) {
  row[2 * quarter] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  row[2 * quarter + 1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
}

__device__ __forceinline__ void get(uint32_t (&pairs)[8], const uint4* row, int quarter) {
  set_pairs(pairs, row[2 * quarter], row[2 * quarter + 1]);
}

template <LinearWeight::Format kFormat>
__global__ void __launch_bounds__(kThreads) product_many(const Arguments arguments) {
  follow_previous_kernels();
  const Product& product = arguments.product;
  __shared__ uint4 weights[kOutputs][kPitch], x[kRows][kPitch];
  const int64_t n = product.weight.n / product.groups, group_first = blockIdx.z * n;
  const int64_t first_output = group_first + int64_t{blockIdx.x} * kOutputs, end_output = group_first + n;
  const int64_t first_row = int64_t{blockIdx.y} * kRows;
  const int64_t pieces = (product.weight.k + kProductPiece - 1) / kProductPiece;
  const int lane = lane_id(), quarter = static_cast<int>(threadIdx.x) % 4, row = static_cast<int>(threadIdx.x) / 4;
  const int warp_output = warp_id() % 4 * 32, warp_row = warp_id() / 4 * 32;

  float sums[2][4][4] = {}, d[2][4][4] = {};
  int part = 0;
  int64_t part_end = pieces / arguments.parts;
  Next next;
  fetch<kFormat>(next, product, first_output, end_output, first_row, 0);
#pragma unroll 1
  for (int64_t piece = 0; piece < pieces; ++piece) {
    __syncthreads();  // the piece before has been read
    put(weights[row], quarter, next.weights[0]);
    put(weights[row + 64], quarter, next.weights[1]);
    put(x[row], quarter, next.x);
    __syncthreads();
    if (piece + 1 < pieces) fetch<kFormat>(next, product, first_output, end_output, first_row, piece + 1);
    uint32_t low[2][8], high[2][8];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      get(low[i], weights[warp_output + 16 * i + lane / 4], lane % 4);
      get(high[i], weights[warp_output + 16 * i + lane / 4 + 8], lane % 4);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t tokens[8];
      get(tokens, x[warp_row + 8 * j + lane / 4], lane % 4);
#pragma unroll
      for (int i = 0; i < 2; ++i) multiply_piece(d[i][j], low[i], high[i], tokens);
    }
    if (piece + 1 == part_end) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            sums[i][j][r] = part == 0 ? d[i][j][r] : sums[i][j][r] + d[i][j][r];
            d[i][j][r] = 0;
          }
      ++part;
      part_end = (part + 1) * pieces / arguments.parts;
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int64_t output = first_output + warp_output + 16 * i + lane / 4 + 8 * (r / 2);
        const int64_t m = first_row + warp_row + 8 * j + 2 * (lane % 4) + r % 2;
        if (output >= end_output || m >= product.x.rows) continue;
        if (product.y32.data != nullptr) {
          row_of(product.y32, m)[output] = sums[i][j][r];
        } else {
          row_of(product.y, m)[output] = round_to_bf16(sums[i][j][r]);
        }
      }
}

template <LinearWeight::Format kFormat>
Status launch_format(const Product& product, Stream stream) {
  const Arguments arguments{product, product_parts(product.weight.k)};
  const dim3 grid(blocks(divided_up(product.weight.n / product.groups, kOutputs)),
                  blocks(divided_up(product.x.rows, kRows)), static_cast<unsigned>(product.groups));
  return launch(product_many<kFormat>, "any_product_many", grid, kThreads, 0, stream, arguments, kEarly);
}

}  // namespace

Status any_product_many(const Product& product, Stream stream) {
  switch (product.weight.format) {
    case LinearWeight::Format::kFp8:
      return launch_format<LinearWeight::Format::kFp8>(product, stream);
    case LinearWeight::Format::kFp4:
      return launch_format<LinearWeight::Format::kFp4>(product, stream);
    default:
      return launch_format<LinearWeight::Format::kBf16>(product, stream);
  }
}

Status any_product(const Product& product, Stream stream) {
  return product.x.rows <= kProductFewRows ? any_product_few(product, stream) : any_product_many(product, stream);
}

}  // namespace deepinfer::cuda
