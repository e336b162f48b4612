// One block a row.  All threads make the scores; one warp takes the best of what is left, top_k times.  A lane of it
// has the experts lane, lane + 32, ..., and looks through them again only when the best was one of its own.
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

constexpr int kThreads = 128;
constexpr float kLowest = -__builtin_huge_valf();

__global__ void __launch_bounds__(kThreads) route(const Arguments arguments) {
  follow_previous_kernels();
  const Route& op = arguments.op;
  const int experts = static_cast<int>(arguments.scores.columns), lane = lane_id();
  const int64_t m = blockIdx.x;
  auto* score = reinterpret_cast<float*>(dynamic_shared());
  float* biased = score + experts;
  auto* chosen = reinterpret_cast<int32_t*>(biased + experts);
  const float* bias = op.image != nullptr && op.image[m] != 0 ? op.bias_image : op.bias;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kThreads) {
    const float x = row_of(arguments.scores, m)[e];
    score[e] = sqrtf(x > 20.0f ? x : log1pf(expf(x)));
    const float value = score[e] + bias[e];
    biased[e] = isnan(value) ? kLowest : value;
  }
  __syncthreads();
  if (warp_id() > 0) return;
  // The lane's best and its expert; none left: any expert is better.
  float own = kLowest;
  int own_expert = experts;
  uint64_t taken = 0;  // of the lane's experts, bit e / 32
  const auto look = [&] {
    own = kLowest;
    own_expert = experts;
    for (int e = lane; e < experts; e += 32) {
      if ((taken >> (e / 32) & 1) != 0 || (own_expert < experts && biased[e] <= own)) continue;
      own = biased[e];
      own_expert = e;
    }
  };
  look();
  for (int k = 0; k < op.top_k; ++k) {
    float best = own;
    int best_expert = own_expert;
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, step);
      const int other_expert = __shfl_xor_sync(kAllLanes, best_expert, step);
      if (other_expert < experts &&
          (best_expert == experts || other > best || (other == best && other_expert < best_expert))) {
        best = other;
        best_expert = other_expert;
      }
    }
    if (lane == 0) {
      chosen[k] = best_expert;
      row_of(op.expert, m)[k] = best_expert;
    }
    if (best_expert == own_expert) {
      taken |= uint64_t{1} << (own_expert / 32);
      look();
    }
  }
  __syncwarp();
  float sum = 0;
  for (int k = 0; k < op.top_k; ++k) sum += score[chosen[k]];
  sum += 1e-20f;
  for (int k = lane; k < op.top_k; k += 32) row_of(op.weight, m)[k] = score[chosen[k]] / sum * op.scaling;
}

}  // namespace

Status any_route(const Route& op, MatrixView<const float> scores, Stream stream) {
  DI_CHECK(op.expert.columns == op.top_k && op.weight.columns == op.top_k && op.top_k <= scores.columns,
           "expert and weight are [rows, top_k], top_k is at most the number of experts");
  DI_CHECK(scores.columns <= 64 * 32, "a lane has at most 64 experts");
  const Arguments arguments{op, scores};
  return launch(route, "any_route", dim3(blocks(scores.rows)), kThreads, scores.columns * 8 + op.top_k * 4, stream,
                arguments, kEarly);
}

}  // namespace deepinfer::cuda
