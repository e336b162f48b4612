// One warp a row: the best of what is left, top_k times.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/experts.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

struct Arguments {
  Route op;
  MatrixView<const float> scores;
};

constexpr float kLowest = -__builtin_huge_valf();

__global__ void __launch_bounds__(32) route(const Arguments arguments) {
  follow_previous_kernels();
  const Route& op = arguments.op;
  const int experts = static_cast<int>(arguments.scores.columns), lane = lane_id();
  const int64_t m = blockIdx.x;
  auto* score = reinterpret_cast<float*>(dynamic_shared());
  float* biased = score + experts;
  const float* bias = op.image != nullptr && op.image[m] != 0 ? op.bias_image : op.bias;
  for (int e = lane; e < experts; e += 32) {
    const float x = row_of(arguments.scores, m)[e];
    score[e] = sqrtf(x > 20.0f ? x : log1pf(expf(x)));
    const float value = score[e] + bias[e];
    biased[e] = isnan(value) ? kLowest : value;
  }
  __syncwarp();
  int32_t* chosen = row_of(op.expert, m);
  for (int k = 0; k < op.top_k; ++k) {
    float best = kLowest;
    int best_expert = experts;  // none yet: any expert is better
    for (int e = lane; e < experts; e += 32) {
      bool taken = false;
      for (int earlier = 0; earlier < k; ++earlier) taken |= chosen[earlier] == e;
      if (!taken && (best_expert == experts || biased[e] > best)) {
        best = biased[e];
        best_expert = e;
      }
    }
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, step);
      const int other_expert = __shfl_xor_sync(kAllLanes, best_expert, step);
      if (other_expert < experts &&
          (best_expert == experts || other > best || (other == best && other_expert < best_expert))) {
        best = other;
        best_expert = other_expert;
      }
    }
    if (lane == 0) chosen[k] = best_expert;
    __syncwarp();
  }
  float sum = 0;
  for (int k = 0; k < op.top_k; ++k) sum += score[chosen[k]];
  sum += 1e-20f;
  for (int k = lane; k < op.top_k; k += 32) row_of(op.weight, m)[k] = score[chosen[k]] / sum * op.scaling;
}

}  // namespace

Status any_route(const Route& op, MatrixView<const float> scores, Stream stream) {
  DI_CHECK(op.expert.columns == op.top_k && op.weight.columns == op.top_k && op.top_k <= scores.columns,
           "expert and weight are [rows, top_k], top_k is at most the number of experts");
  const Arguments arguments{op, scores};
  return launch(route, "any_route", dim3(blocks(scores.rows)), 32, scores.columns * 8, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
