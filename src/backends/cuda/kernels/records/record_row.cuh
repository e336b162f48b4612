// One row on its way into a record, in shared memory: norm, rotation, encoding.  All threads of a block of
// kRecordThreads take part in each; each ends with the row ready for the next.
#pragma once

#include <cstdint>

#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/rotation.cuh"
#include "ops/rope.h"

namespace deepinfer::cuda {

constexpr int kRecordThreads = 128;

__device__ __forceinline__ void load_row(const bf16* from, int64_t width, bf16* row) {
  for (int64_t c = threadIdx.x; c < width; c += kRecordThreads) row[c] = from[c];
  __syncthreads();
}

// row = RMSNorm(from).  row may be `from` itself.
__device__ inline void norm_row(const bf16* from, const bf16* norm, int64_t width, float eps, bf16* row) {
  float squares = 0;
  for (int64_t c = threadIdx.x; c < width; c += kRecordThreads) squares += widen(from[c]) * widen(from[c]);
  const float r = 1.0f / sqrtf(block_sum<kRecordThreads>(squares) / static_cast<float>(width) + eps);
  for (int64_t c = threadIdx.x; c < width; c += kRecordThreads)
    row[c] = round_to_bf16(widen(norm[c]) * (widen(from[c]) * r));
  __syncthreads();
}

__device__ inline void rotate_row(bf16* row, int64_t width, int64_t position, const RopeTable& table) {
  bf16* tail = row + width - 2 * table.pairs;
  for (int i = static_cast<int>(threadIdx.x); i < table.pairs; i += kRecordThreads)
    rotate_pair(tail + 2 * i, rotation_at(position, table.frequencies[i]));
  __syncthreads();
}

// The lane's channel as a code of 4 bits: the even lane writes both.  The channels of a warp are consecutive.
__device__ __forceinline__ void write_nibbles(uint32_t code, int64_t channel, bool there, uint8_t* record) {
  const uint32_t next = __shfl_down_sync(kAllLanes, code, 1);
  if (there && channel % 2 == 0) record[channel / 2] = static_cast<uint8_t>(code | next << 4);
}

// Section 6.1: per 32 channels, one warp each.
__device__ inline void encode_fp8(const bf16* row, int64_t width, uint8_t* record) {
  for (int64_t first = warp_id() * 32; first < width; first += kRecordThreads) {
    const int64_t c = first + lane_id();
    const float x = widen(row[c]);
    const uint32_t scale = fp8_scale(warp_max(fabsf(x)));
    record[c] = static_cast<uint8_t>(e4m3_code(x * reciprocal_of_scale(scale)));
    if (lane_id() == 0) record[width + first / 32] = static_cast<uint8_t>(scale);
  }
}

// Section 6.4: per 32 channels, one warp each.
__device__ inline void encode_index(const bf16* row, int64_t width, uint8_t* record) {
  for (int64_t first = warp_id() * 32; first < width; first += kRecordThreads) {
    const int64_t c = first + lane_id();
    const float x = widen(row[c]);
    const uint32_t scale = index_scale(warp_max(fabsf(x)));
    write_nibbles(e2m1_code(x * reciprocal_of_scale(scale)), c, true, record);
    if (lane_id() == 0) record[width / 2 + first / 32] = static_cast<uint8_t>(scale);
  }
}

// Section 6.3: per 16 channels, half a warp each.
__device__ inline void encode_main_kv(const bf16* row, int64_t width, uint8_t* record) {
  for (int64_t first = warp_id() * 32; first < width; first += kRecordThreads) {
    const int64_t c = first + lane_id();
    const bool there = c < width;
    const float x = there ? widen(row[c]) : 0.0f;
    float largest = fabsf(x);
    for (int step = 8; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    const uint32_t scale = main_kv_scale(largest);
    // A product with the rounded reciprocal, not a quotient: they differ on ties.
    write_nibbles(e2m1_code(x * (1.0f / e4m3_value(scale))), c, there, record);
    if (there && lane_id() % 16 == 0) record[width / 2 + c / 16] = static_cast<uint8_t>(scale);
  }
}

}  // namespace deepinfer::cuda
