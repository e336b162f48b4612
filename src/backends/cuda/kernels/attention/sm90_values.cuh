// Sums of values of a block's channels, kStageSlots slots a stage: all threads decode, the first warpgroups multiply.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/device/wgmma_attention_shapes.cuh"
#include "backends/cuda/kernels/attention/record_channels.cuh"
#include "backends/cuda/kernels/attention/sm90_records.cuh"
#include "backends/cuda/kernels/attention/sm90_shape.cuh"

namespace deepinfer::cuda::row_attention {

// The records of the stages to come.
template <typename S>
struct ValueStages {
  const Place<S>& place;
  const Row& row;
  StoredChannels stored[S::kValuesAhead][S::kValueItems];

  __device__ __forceinline__ ValueStages(const Place<S>& own_place, const Row& own_row)
      : place(own_place), row(own_row) {}  // nothing is stored yet

  __device__ __forceinline__ Item item_of(int stage, int k) const {
    const int i = place.own + k * kThreads, at = i / 4 % S::kStageSlots, chunk = i / 4 / S::kStageSlots;
    return Item{
        stage * S::kStageSlots + at, at, place.rank * S::kChannels + chunk * 64 + i % 4 * 16,
        place.stages + static_cast<uint32_t>(stage % S::kStages * S::kStageBytes + chunk * S::kStageSlots * kRowBytes),
        i % 4};
  }
  // ahead: of `stored`, stage % kValuesAhead.
  __device__ __forceinline__ void load(int stage, int ahead) {
#pragma unroll
    for (int k = 0; k < S::kValueItems; ++k) load_item(stored[ahead], item_of(stage, k), row, place.records, k);
  }
  __device__ __forceinline__ void decode(int stage, int ahead) {
    if (stage * S::kStageSlots >= row.count) return;
#pragma unroll
    for (int k = 0; k < S::kValueItems; ++k)
      if (S::kStageSlots * S::kChannels / 16 % kThreads == 0 ||
          place.own + k * kThreads < S::kStageSlots * S::kChannels / 16)
        store_item<true>(stored[ahead][k], item_of(stage, k), row);
    load(stage + S::kValuesAhead, ahead);
  }
};

// values: fragments.  The first kDecodedAhead stages have been decoded.
template <typename S, bool kMultiplies>
__device__ __forceinline__ void multiply_values(float (&values)[S::kGroupChannels / 2], ValueStages<S>& ring,
                                                const Place<S>& place, const Row& row) {
  const auto stages = place.stages;
  const auto query = place.query;
  const auto group = place.group;
  const auto units = place.units;
#pragma unroll 1
  for (int first = 0; first * S::kStageSlots < row.count; first += S::kValuesAhead)
#pragma unroll
    for (int ahead = 0; ahead < S::kValuesAhead; ++ahead) {
      const int stage = first + ahead;
      if (stage * S::kStageSlots >= row.count) break;
      if (stage > 0) {
        if (kMultiplies) wgmma_wait<(S::kStages > 2 ? 1 : 0)>();  // the stage that is written next has been read
        __syncthreads();
      }
      if (kMultiplies) {
        const uint32_t a = query + static_cast<uint32_t>(stage * S::kStageSlots * kHeads * 2);
        const uint32_t b =
            stages + static_cast<uint32_t>(stage % S::kStages * S::kStageBytes +
                                           group * (S::kGroupChannels / 64) * S::kStageSlots * kRowBytes);
        const auto multiply = [&](int k) {
          WgmmaBf16Transposed<S::kGroupChannels>::multiply(
              values, matrix_descriptor(a + static_cast<uint32_t>(k * 16 * kHeads * 2), kHeads * 16, 128),
              transposed_descriptor(b + static_cast<uint32_t>(k * 16 * kRowBytes), S::kStageSlots * kRowBytes),
              stage + k > 0);
        };
        fence_async_proxy();
        wgmma_fence();
        if ((stage + 1) * S::kStageSlots <= units * 16) {
#pragma unroll
          for (int k = 0; k < S::kStageSlots / 16; ++k) multiply(k);
        } else {
#pragma unroll 1
          for (int k = 0; k < units - stage * (S::kStageSlots / 16); ++k) multiply(k);
        }
        wgmma_commit();
      }
      ring.decode(stage + S::kDecodedAhead, (ahead + S::kDecodedAhead) % S::kValuesAhead);
    }
}

}  // namespace deepinfer::cuda::row_attention
