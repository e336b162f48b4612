// The product with w2 for few rows: see few_stream.cuh.  The activations of an expert are rounded to FP8 where a block
// makes fragments of them: a lane's 32 columns are one group.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/kernels/experts/few_consume.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kTiles = kFewOutputs / 16;  // of 16 rows, in a slot of an FP4 expert

struct Arguments {
  Experts experts;
  FewPlan plan;
};

// A NaN becomes the largest number, as in e4m3_code.
__device__ __forceinline__ uint32_t e4m3_codes(float first, float second) {
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\n" : "=h"(codes) : "f"(fminf(second, 448.0f)), "f"(fminf(first, 448.0f)));
  return codes;
}

// 32 columns, rounded to e4m3 with one scale, as bf16 pairs of a chunk.
__device__ __forceinline__ void rounded_pairs(uint32_t (&x)[kChunkPairs], const float* columns) {
  float h[32];
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 four = __ldcg(reinterpret_cast<const float4*>(columns) + i);
    h[4 * i] = four.x;
    h[4 * i + 1] = four.y;
    h[4 * i + 2] = four.z;
    h[4 * i + 3] = four.w;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) largest = fmaxf(largest, fabsf(h[i]));
  const uint32_t scale = fp8_scale(largest);
  const float reciprocal = reciprocal_of_scale(scale);
  const ScaleFactors<120> factors(scale, true);
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const uint32_t codes = e4m3_codes(h[8 * j + p] * reciprocal, h[8 * j + p + 4] * reciprocal);
      const uint32_t high = __byte_perm(codes, 0, 0x1404);
      const uint32_t pair = (high & 0x80008000u) | ((high >> 4) & 0x07f007f0u);
      x[4 * j + p] = times(times(pair, factors.first), factors.second);
    }
}

template <int kPartChunks>
__device__ __forceinline__ void load_hidden(uint32_t (&x)[kPartChunks][kChunkPairs], const float* row, int column,
                                            int chunks, int k) {
#pragma unroll
  for (int c = 0; c < kPartChunks; ++c) {
    const int at = column + c * kExpertChunk;
    if (row != nullptr && c < chunks && at < k) {
      rounded_pairs(x[c], row + at);
    } else {
#pragma unroll
      for (int i = 0; i < kChunkPairs; ++i) x[c][i] = 0;
    }
  }
}

template <int kPartChunks>
__global__ void __launch_bounds__(kFewMostWarps * 32, 1) expert_output_few(const Arguments arguments) {
  const FewPlan& plan = arguments.plan;
  const Experts& experts = arguments.experts;
  __shared__ uint64_t full[kFewMostPlaces];
  std::byte* const ring = dynamic_shared();
  auto* const sums = reinterpret_cast<float*>(ring + plan.places * plan.slot_bytes);
  const int tile_floats = plan.parts * kSumFloats;
  auto& list = *reinterpret_cast<FewChoices*>(sums + plan.groups * 2 * kTiles * tile_floats);
  const int rows = static_cast<int>(experts.x.rows), top_k = static_cast<int>(experts.expert.columns);
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.places; ++i) barrier_init(shared_address(&full[i]), 1);
    barrier_fence_init();
  }
  __syncthreads();
  FewRanges ranges = shared_range(plan);

  const auto fetch = [&](int number) {
    fetch_slot<false>(number, shared_address(ring), shared_address(full), plan, experts, ranges, list);
  };
  const int shared_slots = (ranges.shared_end - ranges.shared_begin) * plan.shared_slots;
  if (warp_id() == 0)
    for (int i = 0; i < min(plan.places, shared_slots); ++i) fetch(i);

  // What the kernel before the one before has written may be read at once: the one before allows this one only when it
  // has waited itself.
  list_few_choices(list, experts.expert, experts.expert_count);
  add_routed_range(ranges, plan, list.active_count);
  if (warp_id() == 0)
    for (int i = min(plan.places, shared_slots); i < plan.places; ++i) fetch(i);
  wait_for_previous_kernels();
  allow_next_kernel();

  const int part = warp_id() % plan.parts, group = warp_id() / plan.parts, lane = lane_id(), k = plan.k;
  const int first_chunk = part * plan.part_chunks, chunks = min(plan.part_chunks, plan.chunks - first_chunk);
  const int column = first_chunk * kExpertChunk + lane % 4 * 32, row = lane / 4;
  const int64_t d = experts.x.columns;
  const int items = ranges.shared_end - ranges.shared_begin + ranges.routed_end - ranges.routed_begin;
  float* const group_sums = sums + group * 2 * kTiles * tile_floats;
  uint32_t x[kPartChunks][kChunkPairs];
  int loaded = -2, turn = 0;
#pragma unroll 1
  for (int i = group; i < items; i += plan.groups) {
    const FewItem item = few_item(plan, ranges, list, i, rows, top_k);
    const int passes = (item.count + 7) / 8;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass, ++turn) {
      const int choices = min(item.count - 8 * pass, 8);
      const int key = passes > 1 ? -2 : item.key;
      if (key == -2 || key != loaded) {
        const float* hidden = nullptr;
        if (row < choices) hidden = experts.hidden + choice_of(item, list, 8 * pass + row) * experts.width;
        load_hidden<kPartChunks>(x, hidden, column, chunks, k);
        loaded = key;
      }
      const int place = item.slot % plan.places;
      if (pass == 0)
        barrier_wait(shared_address(&full[place]), static_cast<uint32_t>(item.slot / plan.places % 2));
      const uint32_t slot = shared_address(ring) + static_cast<uint32_t>(place * plan.slot_bytes);
      const uint32_t scales = slot + static_cast<uint32_t>(plan.scale_at);
      float* const turn_sums = group_sums + turn % 2 * kTiles * tile_floats;
      const int tiles = item.shared ? 1 : kTiles;
      if (item.shared) {
        const uint32_t of_tile = scales + static_cast<uint32_t>(scale_shift(item.tile / 2 * (k / 32)));
        const TileRows tile{slot + static_cast<uint32_t>(row * k), slot + static_cast<uint32_t>((row + 8) * k), of_tile,
                            of_tile};
        float sum[4] = {};
        multiply_tile<LinearWeight::Format::kFp8, kPartChunks>(sum, tile, column, column, chunks, k, x);
        store_sums(turn_sums + part * kSumFloats, sum);
      } else {
        const int shift = scale_shift(item.tile * kFewOutputs * (k / 32));
#pragma unroll 1
        for (int t = 0; t < kTiles; ++t) {
          const int low = 16 * t + row;
          const TileRows tile{slot + static_cast<uint32_t>(low * (k / 2)), slot + static_cast<uint32_t>((low + 8) * (k / 2)),
                              scales + static_cast<uint32_t>(shift + low * (k / 32)),
                              scales + static_cast<uint32_t>(shift + (low + 8) * (k / 32))};
          float sum[4] = {};
          multiply_tile<LinearWeight::Format::kFp4, kPartChunks>(sum, tile, column, column, chunks, k, x);
          store_sums(turn_sums + t * tile_floats + part * kSumFloats, sum);
        }
      }
      // Whoever adds up these sums has done so before the barrier of the next turn, behind which they are written again.
      sync_threads_of(1 + group, plan.parts * 32);
      if (pass == passes - 1 && turn % plan.parts == part) fetch(item.slot + plan.places);
      const int outputs = 16 * tiles;
      for (int at = (part + 2 * turn) % plan.parts * 32 + lane; at < choices * outputs; at += plan.parts * 32) {
        const int output = at % outputs, of_row = at / outputs;
        const float sum = sum_of_parts(turn_sums + output / 16 * tile_floats + of_row * kSumPitch + output % 16,
                                       plan.parts, kSumFloats);
        experts.outputs[choice_of(item, list, 8 * pass + of_row) * d + item.tile * outputs + output] = round_to_bf16(sum);
      }
    }
  }
}

template <int kPartChunks>
Status launch_chunks(const Arguments& arguments, int64_t shared, int multiprocessors, Stream stream) {
  return launch(expert_output_few<kPartChunks>, "sm90_expert_output_few",
                          dim3(static_cast<unsigned>(multiprocessors)), arguments.plan.threads(), shared, stream,
                          arguments, kEarly);
}

}  // namespace

Status sm90_expert_output_few(const Experts& experts, Stream stream) {
  if (experts.x.rows == 0) return {};
  const int parts = expert_parts(experts.width), groups = std::min(kFewMostGroups, kFewMostWarps / parts);
  const int other = groups * 2 * kTiles * parts * kSumFloats * 4 + static_cast<int>(sizeof(FewChoices));
  const Arguments arguments{experts, few_plan(experts, false, other)};
  const FewPlan& plan = arguments.plan;
  DI_CHECK(plan.places >= 1, "a tile fits into the ring");
  DI_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  const int64_t shared = plan.places * plan.slot_bytes + other;
  if (plan.part_chunks == 1) return launch_chunks<1>(arguments, shared, multiprocessors, stream);
  if (plan.part_chunks <= 3) return launch_chunks<3>(arguments, shared, multiprocessors, stream);
  return launch_chunks<5>(arguments, shared, multiprocessors, stream);
}

}  // namespace deepinfer::cuda
