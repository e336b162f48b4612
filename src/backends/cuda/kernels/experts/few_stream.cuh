// The schedule of the kernels for few rows, and the way of the weights into shared memory.
//
// One block a multiprocessor, each with a range of tiles of the shared expert and one of the active experts' tiles, one
// after the other, such that all blocks read about as many bytes.  Tiles, whose rows lie in one piece in memory, are copied
// into the slots of a ring; warps take them in groups of one warp for each part of K, the groups in turn.  When a group
// has met behind a tile, one of its warps asks for what comes to the same place next.  The shared expert does not depend
// on the router, so its first tiles are asked for before the kernels in front have ended.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/experts/few_choices.cuh"
#include "backends/cuda/kernels/experts/few_plan.h"

namespace deepinfer::cuda {

// Sums of a tile of 16 weight rows by 8 columns: [columns][kSumPitch], such that neither side has bank conflicts.
constexpr int kSumPitch = 20;
constexpr int kSumFloats = 8 * kSumPitch;

struct FewRanges {
  int shared_begin, shared_end, routed_begin, routed_end;  // tiles
};

// Slots per block are dealt out evenly, the shared expert's in advance.
__device__ __forceinline__ FewRanges shared_range(const FewPlan& plan) {
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  return {block * plan.shared_tiles / blocks, (block + 1) * plan.shared_tiles / blocks, 0, 0};
}
__device__ __forceinline__ void add_routed_range(FewRanges& ranges, const FewPlan& plan, int active) {
  const int blocks = static_cast<int>(gridDim.x), routed = active * plan.routed_tiles;
  const int all = routed + plan.shared_tiles * plan.shared_slots;
  const bool even = all / blocks >= plan.shared_slots * ((plan.shared_tiles + blocks - 1) / blocks);
  const auto begin = [&](int block) {
    const int shared = plan.shared_slots * (block * plan.shared_tiles / blocks);
    const int64_t slots = int64_t{block} * (even ? all : routed) / blocks;
    return static_cast<int>(even ? slots - shared : slots);
  };
  ranges.routed_begin = begin(static_cast<int>(blockIdx.x));
  ranges.routed_end = begin(static_cast<int>(blockIdx.x) + 1);
}

// Where the scales from byte `begin` of a tensor on lie behind the 16-byte boundary that they are copied from.
__device__ __forceinline__ int scale_shift(int begin) {
  return begin & 15;
}

// Where a tile goes, and the barrier that its bytes complete on.
struct FewSlot {
  uint32_t address, full;

  __device__ void expect(int bytes) const {
    if (lane_id() == 0) barrier_arrive_expect(full, static_cast<uint32_t>(bytes));
    __syncwarp();
  }
  __device__ void copy(int at, const void* from, int bytes) const {
    bulk_copy_once(address + static_cast<uint32_t>(at), from, static_cast<uint32_t>(bytes), full);
  }
};

// Rows [first, first + count) of a scale tensor with so many bytes a row: the copy's begin and size.
struct ScaleCopy {
  const uint8_t* from;
  int bytes;
  __device__ ScaleCopy(const uint8_t* scales, int first, int count, int row_bytes) {
    const int begin = first * row_bytes, aligned = begin & ~15;
    from = scales + aligned;
    bytes = ((begin + count * row_bytes + 15) & ~15) - aligned;
  }
};

// A tile of an FP4 expert: 8 rows of w1 and of w3, or 32 of w2.  By one warp, as the two below.
template <bool kHidden>
__device__ __forceinline__ void fetch_routed(const FewSlot& slot, const FewPlan& plan, const ExpertPointers& expert,
                                             int tile) {
  const int row_bytes = plan.k / 2;
  if constexpr (kHidden) {
    const int half = kFewUnits * row_bytes;
    const ScaleCopy gate(expert.w1_scale, tile * kFewUnits, kFewUnits, plan.k / 32);
    const ScaleCopy up(expert.w3_scale, tile * kFewUnits, kFewUnits, plan.k / 32);
    slot.expect(2 * half + gate.bytes + up.bytes);
    if (lane_id() == 0) {
      slot.copy(0, expert.w1 + int64_t{tile} * half, half);
      slot.copy(half, expert.w3 + int64_t{tile} * half, half);
      slot.copy(plan.scale_at, gate.from, gate.bytes);
      slot.copy(plan.scale_at + plan.scale_pitch, up.from, up.bytes);
    }
  } else {
    const int all = kFewOutputs * row_bytes;
    const ScaleCopy scales(expert.w2_scale, tile * kFewOutputs, kFewOutputs, plan.k / 32);
    slot.expect(all + scales.bytes);
    if (lane_id() == 0) {
      slot.copy(0, expert.w2 + int64_t{tile} * all, all);
      slot.copy(plan.scale_at, scales.from, scales.bytes);
    }
  }
}

// A tile of the FP8 expert: 8 rows of w1 and of w3 in one slot or two, each with the columns of some parts; or 16 rows
// of w2.
template <bool kHidden>
__device__ __forceinline__ void fetch_shared(const FewSlot& slot, const FewPlan& plan, const ExpertPointers& expert,
                                             int tile, int half) {
  const int lane = lane_id(), k = plan.k;
  if constexpr (kHidden) {
    const ScaleCopy gate(expert.w1_scale, tile / 4, 1, k / 32), up(expert.w3_scale, tile / 4, 1, k / 32);
    const int first = half == 0 ? 0 : plan.first_columns, columns = half == 0 ? plan.first_columns : k - first;
    slot.expect(16 * columns + gate.bytes + up.bytes);
    if (lane < 16) {
      const uint8_t* weight = lane < 8 ? expert.w1 : expert.w3;
      slot.copy(lane * columns, weight + int64_t{tile * kFewUnits + lane % 8} * k + first, columns);
    } else if (lane == 16) {
      slot.copy(plan.scale_at, gate.from, gate.bytes);
    } else if (lane == 17) {
      slot.copy(plan.scale_at + plan.scale_pitch, up.from, up.bytes);
    }
  } else {
    const ScaleCopy scales(expert.w2_scale, tile / 2, 1, k / 32);
    slot.expect(16 * k + scales.bytes);
    if (lane == 0) {
      slot.copy(0, expert.w2 + int64_t{tile} * 16 * k, 16 * k);
      slot.copy(plan.scale_at, scales.from, scales.bytes);
    }
  }
}

// Asks for what slot number `number` of the block holds, if there is any.  Behind everything that was read from the
// place before; `list` is looked at for slots behind the shared expert's only.
template <bool kHidden>
__device__ __forceinline__ void fetch_slot(int number, uint32_t ring, uint32_t full, const FewPlan& plan,
                                           const Experts& experts, const FewRanges& ranges, const FewChoices& list) {
  const int place = number % plan.places;
  const FewSlot slot{ring + static_cast<uint32_t>(place * plan.slot_bytes), full + static_cast<uint32_t>(8 * place)};
  const int shared = (ranges.shared_end - ranges.shared_begin) * plan.shared_slots;
  if (number < shared) {
    fetch_shared<kHidden>(slot, plan, experts.shared, ranges.shared_begin + number / plan.shared_slots,
                          number % plan.shared_slots);
    return;
  }
  const int tile = ranges.routed_begin + number - shared;
  if (tile < ranges.routed_end)
    fetch_routed<kHidden>(slot, plan, experts.experts[list.active[tile / plan.routed_tiles]],
                          tile % plan.routed_tiles);
}

}  // namespace deepinfer::cuda
