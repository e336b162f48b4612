// The product with w2 for few rows: see few_stream.cuh.  The activations of an expert are rounded to FP8 where a block
// makes fragments of them: a lane's 32 columns are one group.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/kernels/experts/few_consume.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

struct Arguments {
  Experts experts;
  FewPlan plan;
};

// A NaN becomes the largest number, as in e4m3_code.
__device__ __forceinline__ uint32_t e4m3_codes(float first, float second) {
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\n"
      : "=h"(codes)
      : "f"(fminf(second, 448.0f)), "f"(fminf(first, 448.0f)));
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

__device__ __forceinline__ void load_hidden(uint32_t (&x)[kExpertPartChunks][kChunkPairs], const float* row, int column,
                                            int chunks, int k) {
#pragma unroll
  for (int c = 0; c < kExpertPartChunks; ++c) {
    const int at = column + c * kExpertChunk;
    if (row != nullptr && c < chunks && at < k) {
      rounded_pairs(x[c], row + at);
    } else {
#pragma unroll
      for (int i = 0; i < kChunkPairs; ++i) x[c][i] = 0;
    }
  }
}

struct Stage {
  // What the kernel before the one before has written may be read at once: the one before allows this one only when it
  // has waited itself.
  static constexpr bool kWaitsBeforeList = false;
  const FewPlan& plan;
  const Experts& experts;
  FewChoices& list;

  static __device__ bool all_rows(int) { return false; }
  __device__ void prepare() const {}

  __device__ void fetch(const FewSlot& slot, const FewCursor& at, int half) const {
    if (at.shared) {
      fetch_shared<false>(slot, plan, experts.shared, at.tile, half);
    } else {
      fetch_routed<false>(slot, plan, experts.experts[list.active[at.active]], at.tile);
    }
  }

  __device__ void load(uint32_t (&x)[kExpertPartChunks][kChunkPairs], const FewChoicesOf& choices, int first,
                       int column, int chunks) const {
    const int own = first + lane_id() / 4;
    const float* const hidden =
        own < choices.count ? experts.hidden + choices.choice(list, own) * experts.width : nullptr;
    load_hidden(x, hidden, column, chunks, plan.k);
  }

  __device__ void finish(const float* sums, const FewCursor& at, const FewChoicesOf& choices, int first,
                         int thread) const {
    const int count = min(choices.count - first, 8), outputs = at.shared ? kFewOutputs / 2 : kFewOutputs;
    for (int i = thread; i < count * outputs; i += kFewFinish * 32) {
      const int output = i % outputs, row = i / outputs;
      const float sum =
          sum_of_parts(sums + output / 16 * plan.parts * kSumFloats + row * kSumPitch + output % 16, plan.parts);
      experts.outputs[choices.choice(list, first + row) * experts.x.columns + at.tile * outputs + output] =
          round_to_bf16(sum);
    }
  }
};

__global__ void __launch_bounds__(kFewThreads, 1) expert_output_few(const __grid_constant__ Arguments arguments) {
  const FewPlan& plan = arguments.plan;
  std::byte* const ring = dynamic_shared();
  auto* const sums = reinterpret_cast<float*>(ring + plan.places * plan.slot_bytes);
  auto& list = *reinterpret_cast<FewChoices*>(sums + kFewSumBuffers * plan.sum_floats);
  few_run<false>(plan, arguments.experts, list, sums, ring, Stage{plan, arguments.experts, list});
}

}  // namespace

Status sm90_expert_output_few(const Experts& experts, Stream stream) {
  if (experts.x.rows == 0) return {};
  const Arguments arguments{experts, few_plan(experts, false, static_cast<int>(sizeof(FewChoices)))};
  const FewPlan& plan = arguments.plan;
  DI_CHECK(plan.places >= 1, "a tile fits into the ring");
  DI_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch(expert_output_few, "sm90_expert_output_few", dim3(static_cast<unsigned>(multiprocessors)), kFewThreads,
                plan.shared_bytes, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
