// What the consumer warps of the kernels for few rows share: multiplying a tile's chunks, adding up the parts.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/experts/expert_chunks.cuh"
#include "backends/cuda/kernels/experts/few_stream.cuh"

namespace deepinfer::cuda {

__device__ __forceinline__ void sync_threads_of(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Shared addresses of the lane's rows: the low one, lane / 4, and the one 8 further, and of their scales, all at column
// 0 of the slot.
struct TileRows {
  uint32_t low, high, low_scales, high_scales;
};

// d = the tile's 16 rows times x over the part's chunks.  column: the lane's first, of K; in_slot: the same in the slot.
template <LinearWeight::Format kFormat, int kPartChunks>
__device__ __forceinline__ void multiply_tile(float (&d)[4], const TileRows& rows, int column, int in_slot, int chunks,
                                              int k, const uint32_t (&x)[kPartChunks][kChunkPairs]) {
  constexpr bool kFp4 = kFormat == LinearWeight::Format::kFp4;
  using Factors = ScaleFactors<kFp4 ? 126 : 120>;
#pragma unroll
  for (int c = 0; c < kPartChunks; ++c) {
    if (c >= chunks) break;
    const int at = column + c * kExpertChunk, byte = kFp4 ? (in_slot + c * kExpertChunk) / 2 : in_slot + c * kExpertChunk;
    const bool there = at < k;
    const Factors low(load_shared_byte(rows.low_scales + static_cast<uint32_t>(at / 32)), there);
    const Factors high(load_shared_byte(rows.high_scales + static_cast<uint32_t>(at / 32)), there);
    const uint32_t low_codes = rows.low + static_cast<uint32_t>(byte), high_codes = rows.high + static_cast<uint32_t>(byte);
    const bool twice = __any_sync(kAllLanes, there && (low.twice || high.twice)) != 0;
    if constexpr (kFp4) {
      if (twice) {
        multiply_fp4_chunk<true>(d, low_codes, high_codes, low, high, x[c]);
      } else {
        multiply_fp4_chunk<false>(d, low_codes, high_codes, low, high, x[c]);
      }
    } else {
      if (twice) {
        multiply_fp8_chunk<true>(d, low_codes, high_codes, low, high, x[c]);
      } else {
        multiply_fp8_chunk<false>(d, low_codes, high_codes, low, high, x[c]);
      }
    }
  }
}

__device__ __forceinline__ void store_sums(float* sums, const float (&d)[4]) {
  float* const at = sums + 2 * (lane_id() % 4) * kSumPitch + lane_id() / 4;
  at[0] = d[0];
  at[kSumPitch] = d[1];
  at[8] = d[2];
  at[kSumPitch + 8] = d[3];
}

// Of all parts, in ascending order; `stride` floats from a part to the next.
__device__ __forceinline__ float sum_of_parts(const float* sums, int parts, int stride) {
  float sum = sums[0];
  for (int p = 1; p < parts; ++p) sum += sums[p * stride];
  return sum;
}

// The tile that a group works on and its expert's choices.
struct FewItem {
  bool shared;
  int tile;   // of the expert
  int slot;   // number of its first slot in the block's order
  int count;  // of choices
  int first;  // routed: in the list; shared: the first choice itself
  int key;    // tells experts apart
};
__device__ __forceinline__ FewItem few_item(const FewPlan& plan, const FewRanges& ranges, const FewChoices& list, int i,
                                            int rows, int top_k) {
  const int shared = ranges.shared_end - ranges.shared_begin;
  if (i < shared) return {true, ranges.shared_begin + i, i * plan.shared_slots, rows, rows * top_k, -1};
  const int routed = ranges.routed_begin + i - shared, active = routed / plan.routed_tiles;
  return {false,
          routed % plan.routed_tiles,
          shared * plan.shared_slots + i - shared,
          list.count[active],
          list.first[active],
          active};
}
__device__ __forceinline__ int choice_of(const FewItem& item, const FewChoices& list, int i) {
  return item.shared ? item.first + i : list.choice[item.first + i];
}

// Choice i of shared and routed experts alike belongs to this row.
__device__ __forceinline__ int row_of_choice(const FewItem& item, int choice, int top_k) {
  return item.shared ? choice - item.first : choice / top_k;
}

}  // namespace deepinfer::cuda
