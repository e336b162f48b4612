// Gate, up and SwiGLU for few rows: see few_stream.cuh.  A tile is 8 hidden units, their rows of w1 as the low and of
// w3 as the high rows of an instruction.  A step of up to 8 rows has them all as the columns of every product, whoever
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

__device__ __forceinline__ void load_x(uint32_t (&x)[kExpertPartChunks][kChunkPairs], const bf16* row, int column,
                                       int chunks, int k) {
#pragma unroll
  for (int c = 0; c < kExpertPartChunks; ++c) {
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

struct Stage {
  static constexpr bool kWaitsBeforeList = true;
  const FewPlan& plan;
  const Experts& experts;
  Shared& shared;

  // A step of so few rows has them all as columns of every product.
  static __device__ bool all_rows(int rows) { return rows <= 8; }

  __device__ void prepare() const {
    const int top_k = static_cast<int>(experts.expert.columns), choices = static_cast<int>(experts.x.rows) * top_k;
    for (int c = static_cast<int>(threadIdx.x); c < choices; c += kFewMultiply * 32)
      if (warp_id() < kFewMultiply) shared.weight[c] = row_of(experts.weight, c / top_k)[c % top_k];
  }

  __device__ void fetch(const FewSlot& slot, const FewCursor& at, int half) const {
    if (at.shared) {
      fetch_shared<true>(slot, plan, experts.shared, at.tile, half);
    } else {
      fetch_routed<true>(slot, plan, experts.experts[shared.list.active[at.active]], at.tile);
    }
  }

  __device__ void load(uint32_t (&x)[kExpertPartChunks][kChunkPairs], const FewChoicesOf& choices, int first,
                       int column, int chunks) const {
    const int own = lane_id() / 4, rows = static_cast<int>(experts.x.rows);
    const bf16* row = nullptr;
    if (all_rows(rows)) {
      if (own < rows) row = row_of(experts.x, own);
    } else if (first + own < choices.count) {
      row = row_of(experts.x,
                   choices.row(choices.choice(shared.list, first + own), static_cast<int>(experts.expert.columns)));
    }
    load_x(x, row, column, chunks, plan.k);
  }

  __device__ void finish(const float* sums, const FewCursor& at, const FewChoicesOf& choices, int first,
                         int thread) const {
    const int count = min(choices.count - first, 8), top_k = static_cast<int>(experts.expert.columns);
    const bool all = all_rows(static_cast<int>(experts.x.rows));
    for (int i = thread; i < count * kFewUnits; i += kFewFinish * 32) {
      const int unit = i % kFewUnits, choice = choices.choice(shared.list, first + i / kFewUnits);
      const float* const sum = sums + (all ? choices.row(choice, top_k) : i / kFewUnits) * kSumPitch + unit;
      const float g = sum_of_parts(sum, plan.parts), u = sum_of_parts(sum + 8, plan.parts);
      const float weight = at.shared ? 1.0f : shared.weight[choice];
      experts.hidden[choice * experts.width + at.tile * kFewUnits + unit] =
          activated(widen(round_to_bf16(g)), widen(round_to_bf16(u)), experts.limit, weight);
    }
  }
};

__global__ void __launch_bounds__(kFewThreads, 1) expert_hidden_few(const __grid_constant__ Arguments arguments) {
  const FewPlan& plan = arguments.plan;
  std::byte* const ring = dynamic_shared();
  auto* const sums = reinterpret_cast<float*>(ring + plan.places * plan.slot_bytes);
  auto& shared = *reinterpret_cast<Shared*>(sums + kFewSumBuffers * plan.sum_floats);
  few_run<true>(plan, arguments.experts, shared.list, sums, ring, Stage{plan, arguments.experts, shared});
}

}  // namespace

Status sm90_expert_hidden_few(const Experts& experts, Stream stream) {
  if (experts.x.rows == 0) return {};
  const Arguments arguments{experts, few_plan(experts, true, static_cast<int>(sizeof(Shared)))};
  const FewPlan& plan = arguments.plan;
  DI_CHECK(plan.places >= plan.shared_slots, "a tile fits into the ring");
  DI_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch(expert_hidden_few, "sm90_expert_hidden_few", dim3(static_cast<unsigned>(multiprocessors)), kFewThreads,
                plan.shared_bytes, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
