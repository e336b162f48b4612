// What the consumer warps of the kernels for few rows share: multiplying a tile's chunks, adding up the parts.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/experts/expert_chunks.cuh"
#include "backends/cuda/kernels/experts/few_stream.cuh"

namespace deepinfer::cuda {

// Shared addresses of the lane's rows: the low one, lane / 4, and the one 8 further, and of their scales, all at column
// 0 of the slot.
struct TileRows {
  uint32_t low, high, low_scales, high_scales;
};

// d = the tile's 16 rows times x over the part's chunks.  column: the lane's first, of K; in_slot: the same in the
// slot.
template <LinearWeight::Format kFormat>
__device__ __forceinline__ void multiply_tile(float (&d)[4], const TileRows& rows, int column, int in_slot, int chunks,
                                              int k, const uint32_t (&x)[kExpertPartChunks][kChunkPairs]) {
  constexpr bool kFp4 = kFormat == LinearWeight::Format::kFp4;
  using Factors = ScaleFactors<kFp4 ? 126 : 120>;
#pragma unroll
  for (int c = 0; c < kExpertPartChunks; ++c) {
    if (c >= chunks) break;
    const int at = column + c * kExpertChunk,
              byte = kFp4 ? (in_slot + c * kExpertChunk) / 2 : in_slot + c * kExpertChunk;
    const bool there = at < k;
    const Factors low(load_shared_byte(rows.low_scales + static_cast<uint32_t>(at / 32)), there);
    const Factors high(load_shared_byte(rows.high_scales + static_cast<uint32_t>(at / 32)), there);
    const uint32_t low_codes = rows.low + static_cast<uint32_t>(byte),
                   high_codes = rows.high + static_cast<uint32_t>(byte);
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

// Of all parts, in ascending order, from zero.
__device__ __forceinline__ float sum_of_parts(const float* sums, int parts) {
  float sum = 0;
#pragma unroll 4
  for (int p = 0; p < parts; ++p) sum += sums[p * kSumFloats];
  return sum;
}

// The choices of the expert that a cursor stands at.
struct FewChoicesOf {
  int count;
  int first;  // routed: in the list; shared: the first choice itself
  bool shared;

  __device__ FewChoicesOf(const FewCursor& at, const FewChoices& list, int rows, int top_k)
      : count(at.shared ? rows : list.count[at.active]),
        first(at.shared ? rows * top_k : list.first[at.active]),
        shared(at.shared) {}
  __device__ int choice(const FewChoices& list, int i) const { return shared ? first + i : list.choice[first + i]; }
  __device__ int row(int choice, int top_k) const { return shared ? choice - first : choice / top_k; }
};

// Barriers of a block.
struct FewBarriers {
  uint64_t full[kFewMostPlaces], empty[kFewMostPlaces];  // of the ring's places
  uint64_t summed[kFewSumBuffers];
  uint64_t listed;
  int finished[kFewFinish];  // turns, by each of the warps that finish them
};

// The frame of both kernels; Stage has what differs:
//   stage.prepare(): by all warps but the asking one, before the list is made
//   Stage::kWaitsBeforeList: for earlier kernels, which make the choices; otherwise behind the list
//   stage.fetch(slot, cursor, half): asks for a slot
//   stage.load(x, choices, pass, column, chunks): rows of x of a part
//   stage.finish(sums, cursor, choices, pass, lane): by kFewFinish warps
template <bool kHidden, typename Stage>
__device__ __forceinline__ void few_run(const FewPlan& plan, const Experts& experts, FewChoices& list, float* sums,
                                        std::byte* ring, const Stage& stage) {
  __shared__ FewBarriers barriers;
  const int rows = static_cast<int>(experts.x.rows), top_k = static_cast<int>(experts.expert.columns);
  const int warp = warp_id(), lane = lane_id(), multiplying = plan.groups * plan.parts;
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.places; ++i) {
      barrier_init(shared_address(&barriers.full[i]), 1);
      barrier_init(shared_address(&barriers.empty[i]), static_cast<uint32_t>(plan.parts));
    }
    for (int i = 0; i < kFewSumBuffers; ++i)
      barrier_init(shared_address(&barriers.summed[i]), static_cast<uint32_t>(plan.parts));
    for (int& turns : barriers.finished) turns = 0;
    barrier_init(shared_address(&barriers.listed), 1);
    barrier_fence_init();
  }
  __syncthreads();
  FewRanges ranges = shared_range(plan);
  const auto full = [&](int place) { return shared_address(&barriers.full[place]); };
  const auto empty = [&](int place) { return shared_address(&barriers.empty[place]); };

  if (warp == kFewMultiply) {
    ranges.routed_end = 0;
    const auto ask = [&](FewCursor& at) {
      FewCursor place = at;
      for (int half = 0; half < at.slots(plan); ++half, place.next_place(plan)) {
        barrier_wait(empty(place.place), place.phase ^ 1);
        stage.fetch(
            FewSlot{shared_address(ring) + static_cast<uint32_t>(place.place * plan.slot_bytes), full(place.place)}, at,
            half);
      }
      at.next(plan, ranges);
    };
    FewCursor at(plan, ranges);
    while (at.shared) ask(at);
    barrier_wait(shared_address(&barriers.listed), 0);
    add_routed_range(ranges, plan, list.active_count);
    at.begin_routed(plan, ranges);
    while (!at.done) ask(at);
    return;
  }

  if (Stage::kWaitsBeforeList) {
    wait_for_previous_kernels();
    allow_next_kernel();
  }
  stage.prepare();
  list_few_choices(list, experts.expert, experts.expert_count, experts.heavy_rows);
  if (threadIdx.x == 0) barrier_arrive(shared_address(&barriers.listed));
  add_routed_range(ranges, plan, list.active_count);
  if (!Stage::kWaitsBeforeList) {
    wait_for_previous_kernels();
    allow_next_kernel();
  }

  // A turn is a tile and up to 8 rows; turns take the buffers of sums round and round.
  int buffer = 0, number = 0;
  uint32_t buffer_phase = 0;
  const auto next_buffer = [&] {
    ++number;
    if (++buffer == kFewSumBuffers) {
      buffer = 0;
      buffer_phase ^= 1;
    }
  };
  if (warp > kFewMultiply) {
    for (FewCursor at(plan, ranges); !at.done; at.next(plan, ranges)) {
      const FewChoicesOf choices(at, list, rows, top_k);
      for (int first = 0; first < (Stage::all_rows(rows) ? 1 : choices.count); first += 8, next_buffer()) {
        barrier_wait(shared_address(&barriers.summed[buffer]), buffer_phase);
        stage.finish(sums + buffer * plan.sum_floats, at, choices, first, (warp - kFewMultiply - 1) * 32 + lane);
        __syncwarp();
        if (lane == 0) {
          __threadfence_block();
          *const_cast<volatile int*>(&barriers.finished[warp - kFewMultiply - 1]) = number + 1;
        }
      }
    }
    return;
  }
  if (warp >= multiplying) return;

  const int part = warp % plan.parts, group = warp / plan.parts, k = plan.k, row = lane / 4;
  const int first_chunk = part * kExpertPartChunks, chunks = min(kExpertPartChunks, plan.chunks - first_chunk);
  const int column = first_chunk * kExpertChunk + lane % 4 * 32;
  const int own_slot = first_chunk * kExpertChunk >= plan.first_columns ? 1 : 0;
  uint32_t x[kExpertPartChunks][kChunkPairs];
  // A group may be many turns ahead of another, more than the parity of a barrier could tell.
  const auto hand_over = [&](const float(&d)[kHidden ? 1 : 2][4]) {
    for (int& turns : barriers.finished)
      while (*const_cast<volatile int*>(&turns) < number - kFewSumBuffers + 1) {
      }
    __threadfence_block();
    float* const own_sums = sums + buffer * plan.sum_floats + part * kSumFloats;
    store_sums(own_sums, d[0]);
    if constexpr (!kHidden) store_sums(own_sums + plan.parts * kSumFloats, d[1]);
    __syncwarp();
    if (lane == 0) barrier_arrive(shared_address(&barriers.summed[buffer]));
  };
  const bool all = Stage::all_rows(rows);
  bool loaded = false;  // the rows that are columns of every product
  int turn_group = 0;
  FewCursor at(plan, ranges);
#pragma unroll 1
  while (!at.done && at.shared) {
    const FewChoicesOf choices(at, list, rows, top_k);
    const int turns = all ? 1 : (choices.count + 7) / 8;
    const bool own = turn_group == group;
    if (++turn_group == plan.groups) turn_group = 0;
    FewCursor place = at;
    if (own_slot == 1) place.next_place(plan);
    const uint32_t slot = shared_address(ring) + static_cast<uint32_t>(place.place * plan.slot_bytes);
    const uint32_t scales = slot + static_cast<uint32_t>(plan.scale_at);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn, next_buffer()) {
      if (!own) continue;
      if (!all || !loaded) stage.load(x, choices, 8 * turn, column, chunks);
      loaded = true;
      if (turn == 0) barrier_wait(full(place.place), place.phase);
      float d[kHidden ? 1 : 2][4] = {};
      const int in_slot = own_slot == 0 ? 0 : plan.first_columns;
      const int pitch = own_slot == 0 ? plan.first_columns : k - plan.first_columns;
      const int scale_row = kHidden ? at.tile / 4 : at.tile / 2;
      const uint32_t low = scales + static_cast<uint32_t>(scale_shift(scale_row * (k / 32)));
      const TileRows tile{slot + static_cast<uint32_t>(row * pitch), slot + static_cast<uint32_t>((row + 8) * pitch),
                          low, kHidden ? low + static_cast<uint32_t>(plan.scale_pitch) : low};
      multiply_tile<LinearWeight::Format::kFp8>(d[0], tile, column, column - in_slot, chunks, k, x);
      hand_over(d);
    }
    if (own && lane == 0) {
      FewCursor freed = at;
      for (int half = 0; half < at.slots(plan); ++half, freed.next_place(plan)) {
        // The place of the other half may not have been filled yet; it is only free behind that.
        if (half != own_slot) barrier_wait(full(freed.place), freed.phase);
        barrier_arrive(empty(freed.place));
      }
    }
    at.next(plan, ranges);
  }
  // Routed experts: all that does not change from tile to tile is found once for an expert.
  int left = ranges.routed_end - ranges.routed_begin, tile_number = at.tile, active = at.active, place = at.place;
  uint32_t phase = at.phase;
  const int bytes = k / 2, scale_bytes = k / 32, tile_scales = (kHidden ? kFewUnits : kFewOutputs) * scale_bytes;
#pragma unroll 1
  while (left > 0) {
    at.active = active;
    const FewChoicesOf choices(at, list, rows, top_k);
    const int turns = all ? 1 : (choices.count + 7) / 8;
    if (turns == 1 && (!all || !loaded)) stage.load(x, choices, 0, column, chunks);
    loaded = true;
#pragma unroll 1
    for (; left > 0 && tile_number < plan.routed_tiles; --left, ++tile_number) {
      const bool own = turn_group == group;
      if (++turn_group == plan.groups) turn_group = 0;
      if (own) {
        const uint32_t slot = shared_address(ring) + static_cast<uint32_t>(place * plan.slot_bytes + row * bytes);
        const uint32_t scales =
            shared_address(ring) + static_cast<uint32_t>(place * plan.slot_bytes + plan.scale_at +
                                                         scale_shift(tile_number * tile_scales) + row * scale_bytes);
        barrier_wait(full(place), phase);
#pragma unroll 1
        for (int turn = 0; turn < turns; ++turn, next_buffer()) {
          if (turns > 1) stage.load(x, choices, 8 * turn, column, chunks);
          float d[kHidden ? 1 : 2][4] = {};
#pragma unroll
          for (int t = 0; t < (kHidden ? 1 : 2); ++t) {
            const uint32_t low = slot + static_cast<uint32_t>(16 * t * bytes);
            const uint32_t low_scales = scales + static_cast<uint32_t>(16 * t * scale_bytes);
            const TileRows tile{low, low + static_cast<uint32_t>(8 * bytes), low_scales,
                                low_scales + static_cast<uint32_t>(kHidden ? plan.scale_pitch : 8 * scale_bytes)};
            multiply_tile<LinearWeight::Format::kFp4>(d[t], tile, column, column, chunks, k, x);
          }
          if (turn == turns - 1) {
            __syncwarp();
            if (lane == 0) barrier_arrive(empty(place));
          }
          hand_over(d);
        }
      } else {
        for (int turn = 0; turn < turns; ++turn) next_buffer();
      }
      if (++place == plan.places) {
        place = 0;
        phase ^= 1;
      }
    }
    tile_number = 0;
    ++active;
  }
}

}  // namespace deepinfer::cuda
