// One thread four channels; the order of a row's experts is found once for a block, before the outputs are there.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/sm90_experts.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kChannels = 4;      // of a thread
constexpr int kMostExperts = 64;  // of a row

struct Arguments {
  MatrixView<const int32_t> expert;
  const bf16* outputs;
  bool shared;
  MatrixView<bf16> y;
};

__device__ __forceinline__ void add(float (&sum)[kChannels], const bf16* output) {
  const uint2 pairs = *reinterpret_cast<const uint2*>(output);
  sum[0] += __uint_as_float(pairs.x << 16);
  sum[1] += __uint_as_float(pairs.x & 0xffff0000u);
  sum[2] += __uint_as_float(pairs.y << 16);
  sum[3] += __uint_as_float(pairs.y & 0xffff0000u);
}

// The kernel before the one before has ended when this one begins (sm90_expert_output_few allows it only then), so that
// the choices may be read at once.
__global__ void __launch_bounds__(kThreads) combine_experts(const Arguments arguments) {
  __shared__ int place[kMostExperts];
  const int64_t m = blockIdx.x, d = arguments.y.columns;
  const int top_k = static_cast<int>(arguments.expert.columns), own = static_cast<int>(threadIdx.x);
  if (own < top_k) {
    const int32_t* experts = row_of(arguments.expert, m);
    int before = 0;
    for (int k = 0; k < top_k; ++k) before += experts[k] < experts[own] ? 1 : 0;
    place[before] = own;
  }
  __syncthreads();
  allow_next_kernel();
  wait_for_previous_kernels();
  const int64_t c = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * kChannels;
  if (c >= d) return;
  float sum[kChannels] = {};
#pragma unroll 8
  for (int k = 0; k < top_k; ++k) add(sum, arguments.outputs + (m * top_k + place[k]) * d + c);
  if (arguments.shared) add(sum, arguments.outputs + (arguments.y.rows * top_k + m) * d + c);
#pragma unroll
  for (int i = 0; i < kChannels; ++i) row_of(arguments.y, m)[c + i] = round_to_bf16(sum[i]);
}

}  // namespace

Status sm90_combine_experts(const Experts& experts, Stream stream) {
  DI_CHECK(experts.expert.columns <= kMostExperts, "at most 64 experts a row");
  const Arguments arguments{experts.expert, experts.outputs, experts.shared.w1 != nullptr, experts.y};
  return launch(combine_experts, "sm90_combine_experts",
                dim3(blocks(experts.y.rows), blocks(divided_up(experts.y.columns, kThreads * kChannels))), kThreads, 0,
                stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
