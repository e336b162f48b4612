// Largest scores, numerators and denominators, and how the blocks of a cluster tell them to each other.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/attention/sm90_shape.cuh"

namespace deepinfer::cuda::row_attention {

// Scales the scores and stores the largest of the group's, by head, in all blocks.  Threads that multiply.
template <typename S>
__device__ __forceinline__ void share_maxima(float (&scores)[S::kGroupSlots / 2], float scale, const Place<S>& place,
                                             const Row& row) {
  const auto maxima = place.maxima;
  const auto lane = place.lane;
  const auto group = place.group;
  const auto rank = place.rank;
  const auto group_slot = place.group_slot;
  const auto head = place.head;
  const auto column = place.column;
  float top[2] = {kNoScore, kNoScore};
#pragma unroll
  for (int r = 0; r < S::kGroupSlots / 2; ++r) {
    scores[r] *= scale;
    if (group_slot + r / 4 * 8 + column + r % 2 < row.count) top[r / 2 % 2] = fmaxf(top[r / 2 % 2], scores[r]);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    top[i] = fmaxf(top[i], __shfl_xor_sync(kAllLanes, top[i], 1));
    top[i] = fmaxf(top[i], __shfl_xor_sync(kAllLanes, top[i], 2));
    const uint32_t at = shared_address(maxima + (rank * S::kGroups + group) * kHeads + head + 8 * i);
    for (int block = lane % 4; block < S::kBlocks; block += 4)
      store_in_cluster(cluster_address(at, static_cast<uint32_t>(block)), top[i]);
  }
}

// Numerators and their sums of 16 into this block's shared memory.  Threads that multiply.
template <typename S>
__device__ __forceinline__ void store_numerators(const float (&scores)[S::kGroupSlots / 2], const Place<S>& place,
                                                 const Row& row) {
  const auto memory = place.memory;
  const auto sums = place.sums;
  const auto maxima = place.maxima;
  const auto lane = place.lane;
  const auto group_slot = place.group_slot;
  const auto head = place.head;
  const auto column = place.column;
  float top[2] = {kNoScore, kNoScore};
#pragma unroll
  for (int part = 0; part < S::kBlocks * S::kGroups; ++part)
#pragma unroll
    for (int i = 0; i < 2; ++i) top[i] = fmaxf(top[i], maxima[part * kHeads + head + 8 * i]);
  float of_units[S::kGroupSlots / 16][2];
  std::byte* const to = memory + S::kQuery + (group_slot / 8 * kHeads + head) * 16 + column * 2;
#pragma unroll
  for (int unit = 0; unit < S::kGroupSlots / 16; ++unit) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float numerators[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int slot = group_slot + unit * 16 + r / 2 * 8 + column + r % 2;
        const float score = scores[(2 * unit + r / 2) * 4 + 2 * i + r % 2];
        numerators[r] = slot < row.count ? expf(score - top[i]) : 0.0f;
      }
      of_units[unit][i] = (numerators[0] + numerators[1]) + (numerators[2] + numerators[3]);
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<__nv_bfloat162*>(to + (2 * unit + half) * kHeads * 16 + i * 8 * 16) =
            __floats2bfloat162_rn(numerators[2 * half], numerators[2 * half + 1]);
    }
  }
#pragma unroll
  for (int step = 1; step <= 2; ++step)
#pragma unroll
    for (int unit = 0; unit < S::kGroupSlots / 16; ++unit)
#pragma unroll
      for (int i = 0; i < 2; ++i) of_units[unit][i] += __shfl_xor_sync(kAllLanes, of_units[unit][i], step);
  if (lane % 4 == 0) {
#pragma unroll
    for (int unit = 0; unit < S::kGroupSlots / 16; ++unit)
#pragma unroll
      for (int i = 0; i < 2; ++i) sums[(group_slot / 16 + unit) * kHeads + head + 8 * i] = of_units[unit][i];
  }
  fence_async_proxy();  // the copies to the other blocks follow
}

// Bytes that the other blocks send to this one: numerators and their sums.
template <typename S>
__device__ __forceinline__ uint32_t bytes_of_others(const Place<S>& place) {
  int expected = 0;
  for (int block = 0; block < S::kBlocks; ++block)
    if (block != place.rank) expected += place.slots_of_block(block) * (kHeads * 2 + kHeads / 4);
  return static_cast<uint32_t>(expected);
}

// Copies this block's numerators and sums to the other blocks.  One thread.
template <typename S>
__device__ __forceinline__ void send_numerators(const Place<S>& place, uint32_t arrived) {
  const auto query = place.query;
  const auto sums = place.sums;
  const auto rank = place.rank;
  const auto first_slot = place.first_slot;
  const auto own_slots = place.own_slots;
  for (int block = 0; block < S::kBlocks; ++block) {
    if (block == rank) continue;
    const auto to = [&](uint32_t shared) { return cluster_address(shared, static_cast<uint32_t>(block)); };
    const uint32_t numerators = query + static_cast<uint32_t>(first_slot * kHeads * 2);
    const uint32_t unit_sums = shared_address(sums + first_slot / 16 * kHeads);
    bulk_copy_in_cluster(to(numerators), numerators, static_cast<uint32_t>(own_slots * kHeads * 2), to(arrived));
    bulk_copy_in_cluster(to(unit_sums), unit_sums, static_cast<uint32_t>(own_slots * kHeads / 4), to(arrived));
  }
}

// Of one head.  The last kHeads threads.
template <typename S>
__device__ __forceinline__ void store_denominator(const float* sink, const Place<S>& place) {
  const auto sums = place.sums;
  const auto maxima = place.maxima;
  const auto denominators = place.denominators;
  const auto own = place.own;
  const auto units = place.units;
  const int h = own - (kThreads - kHeads);
  float top = kNoScore, sum = 0;
  for (int part = 0; part < S::kBlocks * S::kGroups; ++part) top = fmaxf(top, maxima[part * kHeads + h]);
  for (int unit = 0; unit < units; ++unit) sum += sums[unit * kHeads + h];
  denominators[h] = sum + expf(sink[h] - top);
}

}  // namespace deepinfer::cuda::row_attention
