// A row across a block: each thread holds 8 consecutive channels, its warp 256, and the block goes on by its width.
// The order of a sum over a row is a function of the row's length alone.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/formats.cuh"
#include "tensor/matrix.h"

namespace deepinfer::cuda {

constexpr int kChannels = 8;  // of a thread
constexpr int kMostRowThreads = 640;

// Threads of a block for rows of d channels: whole warps, one turn where the row is no longer than 5,120.
inline int row_threads(int64_t d) {
  const int64_t warps = (d + 32 * kChannels - 1) / (32 * kChannels);
  return static_cast<int>(warps * 32 < kMostRowThreads ? warps * 32 : kMostRowThreads);
}

// Whether all rows can be read and written 8 channels at a time.
template <typename T>
bool in_units_of_channels(const MatrixView<T>& view) {
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.stride % kChannels == 0;
}

// Channels [c, c + 8) of rows of d channels, those from d on not touched.
template <bool kAligned>
__device__ __forceinline__ void load_channels(const bf16* row, int64_t c, int64_t d, float (&values)[kChannels]) {
  if constexpr (kAligned) {
    const uint4 words = *reinterpret_cast<const uint4*>(row + c);
    const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = __uint_as_float(pairs[i] << 16);
      values[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) values[i] = c + i < d ? widen(row[c + i]) : 0.0f;
  }
}

// Values that are bf16 numbers.
template <bool kAligned>
__device__ __forceinline__ void store_channels(bf16* row, int64_t c, int64_t d, const float (&values)[kChannels]) {
  if constexpr (kAligned) {
    *reinterpret_cast<uint4*>(row + c) = make_uint4(pair_of(values[0], values[1]), pair_of(values[2], values[3]),
                                                    pair_of(values[4], values[5]), pair_of(values[6], values[7]));
  } else {
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      if (c + i < d) row[c + i] = {static_cast<uint16_t>(__float_as_uint(values[i]) >> 16)};
  }
}

// As QuantizeActivation rounds; all lanes of a warp, four of which hold a group of 32 channels.
__device__ __forceinline__ void round_to_fp8_groups(float (&values)[kChannels]) {
  float largest = 0;
#pragma unroll
  for (float value : values) largest = fmaxf(largest, fabsf(value));
  largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
  const uint32_t scale = fp8_scale(largest);
  const float down = reciprocal_of_scale(scale), up = e8m0_value(scale);
#pragma unroll
  for (float& value : values) value = rounded_to_e4m3(value * down) * up;  // a bf16 number
}

__device__ __forceinline__ void round_channels(float (&values)[kChannels]) {
#pragma unroll
  for (int i = 0; i < kChannels; i += 2) {
    const uint32_t pair = round_to_bf16_pair(values[i], values[i + 1]);
    values[i] = __uint_as_float(pair << 16);
    values[i + 1] = __uint_as_float(pair & 0xffff0000u);
  }
}

// The sum over a row whose channels are spread over the block: that of its warps, ascending.
__device__ __forceinline__ float sum_of_warps(const float* parts, int warps) {
  float sum = parts[0];
  for (int i = 1; i < warps; ++i) sum += parts[i];
  return sum;
}
__device__ inline float row_sum(float value) {
  __shared__ float parts[kMostRowThreads / 32];
  value = warp_sum(value);
  if (lane_id() == 0) parts[warp_id()] = value;
  __syncthreads();
  return sum_of_warps(parts, static_cast<int>(blockDim.x) / 32);
}

struct NormedRow {
  const bf16* norm;  // null: no norm
  float eps;
  bf16* x;          // null: not wanted
  bf16* quantized;  // null: not wanted
};

// From a row of d bf16 values in shared memory and the sum of this thread's squares: its norm, and that rounded. Called
// once a kernel, by all threads; a thread reads its own channels only, so that x may be where the values came from.
template <bool kAligned>
__device__ __forceinline__ void write_normed_row(const bf16* values, float squares, int64_t d, const NormedRow& to) {
  const float r = to.norm == nullptr ? 1.0f : 1.0f / sqrtf(row_sum(squares) / static_cast<float>(d) + to.eps);
  for (int64_t first = int64_t{warp_id()} * 32 * kChannels; first < d; first += int64_t{blockDim.x} * kChannels) {
    const int64_t c = first + lane_id() * kChannels;
    const bool there = c < d;
    float x[kChannels] = {};
    if (there) {
      load_channels<kAligned>(values, c, d, x);
      if (to.norm != nullptr) {
        float norm[kChannels];
        load_channels<kAligned>(to.norm, c, d, norm);
#pragma unroll
        for (int i = 0; i < kChannels; ++i) x[i] = norm[i] * (x[i] * r);
        round_channels(x);
      }
      if (to.x != nullptr) store_channels<kAligned>(to.x, c, d, x);
    }
    if (to.quantized == nullptr) continue;
    round_to_fp8_groups(x);
    if (there) store_channels<kAligned>(to.quantized, c, d, x);
  }
}

}  // namespace deepinfer::cuda
