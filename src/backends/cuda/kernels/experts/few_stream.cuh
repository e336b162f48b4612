// The schedule of the kernels for few rows, and the way of the weights into shared memory.
//
// One block a multiprocessor, each with a range of tiles of the shared expert and one of the active experts' tiles, one
// after the other, such that all blocks read about as many bytes.  A warp asks for tiles, whose rows lie in one piece
// in memory, as the slots of a ring become free.  Warps multiply them, one for each part of K; where K has few parts,
// there are several groups of them, which take the tiles in turn.  Other warps add up the parts.  The shared expert
// does not depend on the router, so its first tiles are asked for before the kernels in front have ended.
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

// A block's tiles in order, and where in the ring each begins.
struct FewCursor {
  bool shared = false, done = false;
  int tile = 0;    // of the expert
  int active = 0;  // routed: which of the active experts
  int place = 0;
  uint32_t phase = 0;

  __device__ FewCursor(const FewPlan& plan, const FewRanges& ranges) : shared(ranges.shared_begin < ranges.shared_end) {
    if (shared) {
      tile = ranges.shared_begin;
    } else {
      begin_routed(plan, ranges);
    }
  }
  __device__ int slots(const FewPlan& plan) const { return shared ? plan.shared_slots : 1; }
  __device__ void next_place(const FewPlan& plan) {
    if (++place == plan.places) {
      place = 0;
      phase ^= 1;
    }
  }
  __device__ void next(const FewPlan& plan, const FewRanges& ranges) {
    for (int i = slots(plan); i > 0; --i) next_place(plan);
    ++tile;
    if (shared) {
      if (tile == ranges.shared_end) {
        shared = false;
        begin_routed(plan, ranges);
      }
      return;
    }
    done = --left == 0;
    if (tile == plan.routed_tiles) {
      tile = 0;
      ++active;
    }
  }

  __device__ void begin_routed(const FewPlan& plan, const FewRanges& ranges) {
    left = ranges.routed_end - ranges.routed_begin;
    done = left <= 0;
    active = ranges.routed_begin / plan.routed_tiles;
    tile = ranges.routed_begin % plan.routed_tiles;
  }
  int left = 0;
};

}  // namespace deepinfer::cuda
