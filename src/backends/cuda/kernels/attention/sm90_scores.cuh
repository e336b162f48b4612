// Scores of a block's slots, 64 channels a stage: all threads decode, the first warpgroups multiply.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/device/wgmma_attention_shapes.cuh"
#include "backends/cuda/kernels/attention/record_channels.cuh"
#include "backends/cuda/kernels/attention/sm90_records.cuh"
#include "backends/cuda/kernels/attention/sm90_shape.cuh"

namespace deepinfer::cuda::row_attention {

// scores: fragments, still without the scale.
template <typename S, bool kMultiplies>
__device__ __forceinline__ void multiply_scores(float (&scores)[S::kGroupSlots / 2], const Place<S>& place,
                                                const Row& row) {
  const auto stages = place.stages;
  const auto query = place.query;
  const auto records = place.records;
  const auto own = place.own;
  const auto group = place.group;
  const auto first_slot = place.first_slot;
  const auto own_slots = place.own_slots;
  StoredChannels stored[S::kScoresAhead][S::kScoreItems];
  const auto item_of = [&](int chunk, int k) {
    const int i = own + k * kThreads, slot = i / 4;
    return Item{slot < own_slots ? first_slot + slot : S::kSlots, slot, chunk * 64 + i % 4 * 16,
                stages + static_cast<uint32_t>(chunk % S::kStages * S::kStageBytes), i % 4};
  };
#pragma unroll
  for (int c = 0; c < S::kScoresAhead; ++c)
#pragma unroll
    for (int k = 0; k < S::kScoreItems; ++k) load_item(stored[c], item_of(c, k), row, records, k);
#pragma unroll 1
  for (int first = 0; first < kChunks; first += S::kScoresAhead)
#pragma unroll
    for (int ahead = 0; ahead < S::kScoresAhead; ++ahead) {
      const int c = first + ahead;
#pragma unroll
      for (int k = 0; k < S::kScoreItems; ++k) store_item<false>(stored[ahead][k], item_of(c, k), row);
      const auto load_next = [&] {
        if (c + S::kScoresAhead < kChunks)
#pragma unroll
          for (int k = 0; k < S::kScoreItems; ++k)
            load_item(stored[ahead], item_of(c + S::kScoresAhead, k), row, records, k);
      };
      if (!kMultiplies) load_next();
      if (kMultiplies) wgmma_wait<S::kStages - 2>();  // the stage that is written next has been read
      __syncthreads();
      if (kMultiplies) {
        const uint32_t a = query + static_cast<uint32_t>(c * kHeads * kRowBytes);
        const uint32_t b =
            stages + static_cast<uint32_t>(c % S::kStages * S::kStageBytes + group * S::kGroupSlots * kRowBytes);
        fence_async_proxy();  // what all threads wrote; it waits for this thread's loads too, so that those follow
        wgmma_fence();
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k)
          WgmmaBf16<S::kGroupSlots>::multiply(scores, swizzled_descriptor(a + k * 32), swizzled_descriptor(b + k * 32),
                                              c + static_cast<int>(k) > 0);
        wgmma_commit();
        load_next();
      }
    }
}

}  // namespace deepinfer::cuda::row_attention
