// One thread a channel; the order of a row's experts is found once for a block.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/experts.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostExperts = 64;  // of a row

struct Arguments {
  MatrixView<const int32_t> expert;
  const bf16* routed;
  const bf16* shared;
  MatrixView<bf16> y;
};

__global__ void __launch_bounds__(kThreads) combine_experts(const Arguments arguments) {
  follow_previous_kernels();
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
  const int64_t c = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (c >= d) return;
  float sum = 0;
  for (int k = 0; k < top_k; ++k) sum += widen(arguments.routed[(m * top_k + place[k]) * d + c]);
  if (arguments.shared != nullptr) sum += widen(arguments.shared[m * d + c]);
  row_of(arguments.y, m)[c] = round_to_bf16(sum);
}

}  // namespace

Status any_combine_experts(MatrixView<const int32_t> expert, const bf16* routed, const bf16* shared, MatrixView<bf16> y,
                           Stream stream) {
  DI_CHECK(expert.columns <= kMostExperts, "at most 64 experts a row");
  const Arguments arguments{expert, routed, shared, y};
  return launch(combine_experts, "any_combine_experts", dim3(blocks(y.rows), blocks(divided_up(y.columns, kThreads))),
                kThreads, 0, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
