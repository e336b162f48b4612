// Gate, up and SwiGLU for few rows: see few_stream.cuh.  A tile is 8 hidden units, their rows of w1 as the low and of w3
// as the high rows of an instruction.  A step of up to 8 rows has them all as the columns of every product, whoever
// chose the expert, so that the rows are fetched once.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/kernels/experts/activation.cuh"
#include "backends/cuda/kernels/experts/few_consume.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {


struct Arguments {
  Experts experts;
  FewPlan plan;
};

struct Shared {
  FewChoices list;
  float weight[kExpertFewChoices];  // by choice
};

template <int kPartChunks>
__device__ __forceinline__ void load_x(uint32_t (&x)[kPartChunks][kChunkPairs], const bf16* row, int column, int chunks,
                                       int k) {
#pragma unroll
  for (int c = 0; c < kPartChunks; ++c) {
    const int at = column + c * kExpertChunk;
    const bool there = row != nullptr && c < chunks && at < k;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint4 columns = make_uint4(0, 0, 0, 0);
      if (there) columns = __ldcg(reinterpret_cast<const uint4*>(row + at) + j);
      pair_columns(x[c] + 4 * j, columns);
    }
  }
}

template <int kPartChunks>
__global__ void __launch_bounds__(kFewMostWarps * 32, 1) expert_hidden_few(const Arguments arguments) {
  const FewPlan& plan = arguments.plan;
  const Experts& experts = arguments.experts;
  __shared__ uint64_t full[kFewMostPlaces];
  std::byte* const ring = dynamic_shared();
  auto* const sums = reinterpret_cast<float*>(ring + plan.places * plan.slot_bytes);
  auto& shared = *reinterpret_cast<Shared*>(sums + plan.groups * 2 * plan.parts * kSumFloats);
  const int rows = static_cast<int>(experts.x.rows), top_k = static_cast<int>(experts.expert.columns);
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.places; ++i) barrier_init(shared_address(&full[i]), 1);
    barrier_fence_init();
  }
  __syncthreads();
  FewRanges ranges = shared_range(plan);

  const auto fetch = [&](int number) {
    fetch_slot<true>(number, shared_address(ring), shared_address(full), plan, experts, ranges, shared.list);
  };
  const int shared_slots = (ranges.shared_end - ranges.shared_begin) * plan.shared_slots;
  if (warp_id() == 0)
    for (int i = 0; i < min(plan.places, shared_slots); ++i) fetch(i);

  wait_for_previous_kernels();
  allow_next_kernel();
  for (int c = static_cast<int>(threadIdx.x); c < rows * top_k; c += static_cast<int>(blockDim.x))
    shared.weight[c] = row_of(experts.weight, c / top_k)[c % top_k];
  list_few_choices(shared.list, experts.expert, experts.expert_count);
  add_routed_range(ranges, plan, shared.list.active_count);
  if (warp_id() == 0)
    for (int i = min(plan.places, shared_slots); i < plan.places; ++i) fetch(i);

  const int part = warp_id() % plan.parts, group = warp_id() / plan.parts, lane = lane_id(), k = plan.k;
  const int first_chunk = part * plan.part_chunks, chunks = min(plan.part_chunks, plan.chunks - first_chunk);
  const int column = first_chunk * kExpertChunk + lane % 4 * 32;
  const bool all_rows = rows <= 8;
  const int items = ranges.shared_end - ranges.shared_begin + ranges.routed_end - ranges.routed_begin;
  float* const group_sums = sums + group * 2 * plan.parts * kSumFloats;
  uint32_t x[kPartChunks][kChunkPairs];
  int loaded = -2, turn = 0;
#pragma unroll 1
  for (int i = group; i < items; i += plan.groups) {
    const FewItem item = few_item(plan, ranges, shared.list, i, rows, top_k);
    const int passes = all_rows ? 1 : (item.count + 7) / 8;
    const int own_slot = item.shared && part * plan.part_chunks * kExpertChunk >= plan.first_columns ? 1 : 0;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass, ++turn) {
      const int choices = min(item.count - 8 * pass, 8);
      const int key = all_rows ? 0 : passes > 1 ? -2 : item.key;
      if (key == -2 || key != loaded) {
        const int own = lane / 4;
        const bf16* row = nullptr;
        if (all_rows) {
          if (own < rows) row = row_of(experts.x, own);
        } else if (own < choices) {
          row = row_of(experts.x, row_of_choice(item, choice_of(item, shared.list, 8 * pass + own), top_k));
        }
        load_x<kPartChunks>(x, row, column, chunks, k);
        loaded = key;
      }
      const int slots = item.shared ? plan.shared_slots : 1;
      if (pass == 0) {
        for (int s = 0; s < slots; ++s)
          barrier_wait(shared_address(&full[(item.slot + s) % plan.places]),
                       static_cast<uint32_t>((item.slot + s) / plan.places % 2));
      }
      const int place = (item.slot + own_slot) % plan.places;
      const uint32_t slot = shared_address(ring) + static_cast<uint32_t>(place * plan.slot_bytes);
      const uint32_t scales = slot + static_cast<uint32_t>(plan.scale_at);
      const int row = lane / 4;
      float d[4] = {};
      if (item.shared) {
        const int in_slot = own_slot == 0 ? 0 : plan.first_columns;
        const int pitch = own_slot == 0 ? plan.first_columns : k - plan.first_columns;
        const int shift = scale_shift(item.tile / 4 * (k / 32));
        const TileRows tile{slot + static_cast<uint32_t>(row * pitch), slot + static_cast<uint32_t>((row + 8) * pitch),
                            scales + static_cast<uint32_t>(shift),
                            scales + static_cast<uint32_t>(plan.scale_pitch + shift)};
        multiply_tile<LinearWeight::Format::kFp8, kPartChunks>(d, tile, column, column - in_slot, chunks, k, x);
      } else {
        const int shift = scale_shift(item.tile * 8 * (k / 32)) + row * (k / 32);
        const TileRows tile{slot + static_cast<uint32_t>(row * (k / 2)), slot + static_cast<uint32_t>((row + 8) * (k / 2)),
                            scales + static_cast<uint32_t>(shift),
                            scales + static_cast<uint32_t>(plan.scale_pitch + shift)};
        multiply_tile<LinearWeight::Format::kFp4, kPartChunks>(d, tile, column, column, chunks, k, x);
      }
      float* const turn_sums = group_sums + turn % 2 * plan.parts * kSumFloats;
      store_sums(turn_sums + part * kSumFloats, d);
      // Whoever adds up these sums has done so before the barrier of the next turn, behind which they are written again.
      sync_threads_of(1 + group, plan.parts * 32);
      if (pass == passes - 1 && turn % plan.parts == part) {
        for (int s = 0; s < slots; ++s) fetch(item.slot + s + plan.places);
      }
      for (int at = (part + 2 * turn) % plan.parts * 32 + lane; at < choices * kFewUnits; at += plan.parts * 32) {
        const int unit = at % kFewUnits, choice = choice_of(item, shared.list, 8 * pass + at / kFewUnits);
        const int of_row = all_rows ? row_of_choice(item, choice, top_k) : at / kFewUnits;
        const float* const sum = turn_sums + of_row * kSumPitch + unit;
        const float g = sum_of_parts(sum, plan.parts, kSumFloats), u = sum_of_parts(sum + 8, plan.parts, kSumFloats);
        const float weight = item.shared ? 1.0f : shared.weight[choice];
        experts.hidden[choice * experts.width + item.tile * kFewUnits + unit] =
            activated(widen(round_to_bf16(g)), widen(round_to_bf16(u)), experts.limit, weight);
      }
    }
  }
}

template <int kPartChunks>
Status launch_chunks(const Arguments& arguments, int64_t shared, int multiprocessors, Stream stream) {
  return launch(expert_hidden_few<kPartChunks>, "sm90_expert_hidden_few",
                          dim3(static_cast<unsigned>(multiprocessors)), arguments.plan.threads(), shared, stream,
                          arguments, kEarly);
}

}  // namespace

Status sm90_expert_hidden_few(const Experts& experts, Stream stream) {
  if (experts.x.rows == 0) return {};
  const int parts = expert_parts(experts.x.columns), groups = std::min(kFewMostGroups, kFewMostWarps / parts);
  const int other = groups * 2 * parts * kSumFloats * 4 + static_cast<int>(sizeof(Shared));
  const Arguments arguments{experts, few_plan(experts, true, other)};
  const FewPlan& plan = arguments.plan;
  DI_CHECK(plan.places >= plan.shared_slots, "a tile fits into the ring");
  DI_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  const int64_t shared = plan.places * plan.slot_bytes + other;
  if (plan.part_chunks == 1) return launch_chunks<1>(arguments, shared, multiprocessors, stream);
  if (plan.part_chunks <= 3) return launch_chunks<3>(arguments, shared, multiprocessors, stream);
  return launch_chunks<5>(arguments, shared, multiprocessors, stream);
}

}  // namespace deepinfer::cuda
