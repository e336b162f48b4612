// What becomes of the sums of a tile in the kernel for many rows (sm90_product_many.cu).
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/warpgroup.cuh"
#include "backends/cuda/kernels/products/product_many_units.cuh"

namespace deepinfer::cuda::product_many {

// Writes the sums of a warpgroup's 64 outputs by kTokens rows to a matrix of fp32 numbers.
template <int kTokens>
__device__ __forceinline__ void write_fp32(const Arguments& arguments, const float (&sums)[kTokens / 2],
                                           const Tile& tile, int warpgroup, float* to, int64_t stride) {
  const int warp = warp_id() % 4, lane = lane_id(), first = tile.output + warpgroup * 64;  // output of the group
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int output = first + warp * 16 + lane / 4 + i / 2 * 8, row = tile.row + 8 * j + 2 * (lane % 4) + i % 2;
      if (output < arguments.n && row < arguments.rows)
        to[row * stride + int64_t{tile.group} * arguments.n + output] = sums[4 * j + i];
    }
}

// Writes the sums of a warpgroup's 64 outputs by kTokens rows.  staging: kTokens rows of 128 bytes, of the warpgroup.
template <int kTokens>
__device__ __forceinline__ void write_sums(const Arguments& arguments, const float (&sums)[kTokens / 2],
                                           const Tile& tile, int warpgroup, std::byte* staging) {
  const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
  const int first = tile.output + warpgroup * 64;  // output of the group
  const int64_t column = int64_t{tile.group} * arguments.n;
  if (arguments.y32 != nullptr)
    return write_fp32<kTokens>(arguments, sums, tile, warpgroup, arguments.y32, arguments.y_stride);
  warpgroup_sync(warpgroup);  // what the tile before left there has been read
  const uint32_t to = shared_address(staging) + static_cast<uint32_t>((lane / 16 * 8 + lane % 8) * 128 +
                                                                      ((warp * 2 + lane / 8 % 2) ^ (lane % 8)) * 16);
#pragma unroll
  for (int j = 0; j < kTokens / 8; j += 2) {
    uint32_t pairs[4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const __nv_bfloat162 pair =
          __floats2bfloat162_rn(sums[4 * (j + m / 2) + 2 * (m % 2)], sums[4 * (j + m / 2) + 2 * (m % 2) + 1]);
      pairs[m] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    store_matrices_transposed(to + static_cast<uint32_t>(j * 8 * 128), pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  warpgroup_sync(warpgroup);
  const int chunk = thread % 8, output = first + chunk * 8;
#pragma unroll 4
  for (int i = 0; i < kTokens / 16; ++i) {
    const int token = i * 16 + thread / 8, row = tile.row + token;
    if (row >= arguments.rows || output >= arguments.n) continue;
    const uint4 v = *reinterpret_cast<const uint4*>(staging + token * 128 + (chunk ^ (token % 8)) * 16);
    uint16_t* const y = arguments.y + row * arguments.y_stride + column + output;
    if (arguments.whole_chunks) {
      *reinterpret_cast<uint4*>(y) = v;
    } else {
      for (int e = 0; e < min(8, arguments.n - output); ++e) {
        const uint32_t word = e < 2 ? v.x : e < 4 ? v.y : e < 6 ? v.z : v.w;
        y[e] = static_cast<uint16_t>(e % 2 == 0 ? word : word >> 16);
      }
    }
  }
}

}  // namespace deepinfer::cuda::product_many
