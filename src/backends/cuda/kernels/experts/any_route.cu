// One block a row.  A thread has up to kMost experts in registers; each warp lists the best of its own, and the first
// warp takes the best of the lists' heads, top_k times.
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

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr uint32_t kNone = 0;  // below the rank of every value

// Unsigned integers in the order of the values; NaN is the lowest value, and both zeros are one.
__device__ __forceinline__ uint32_t rank_of(float value) {
  const uint32_t bits = __float_as_uint(isnan(value) ? -__builtin_huge_valf() : value + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

struct Choice {
  uint32_t rank;
  int expert;
};

// The best of the lanes' choices, of equals that of the lowest expert; for all lanes.
__device__ __forceinline__ Choice best_of_lanes(const Choice& own) {
  const uint32_t rank = __reduce_max_sync(kAllLanes, own.rank);
  const int expert = __reduce_min_sync(kAllLanes, own.rank == rank ? own.expert : INT32_MAX);
  return {rank, expert};
}

template <int kMost>
__global__ void __launch_bounds__(kThreads) route(const Arguments arguments) {
  const Route& op = arguments.op;
  const int experts = static_cast<int>(arguments.scores.columns), lane = lane_id(), warp = warp_id();
  const int64_t m = blockIdx.x;
  auto* const score = reinterpret_cast<float*>(dynamic_shared());
  auto* const lists = reinterpret_cast<Choice*>(score + (experts + 1) / 2 * 2);  // [kWarps][top_k]
  auto* const chosen = reinterpret_cast<int*>(lists + kWarps * op.top_k);
  float bias[kMost];  // of most rows
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int e = i * kThreads + static_cast<int>(threadIdx.x);
    bias[i] = e < experts ? op.bias[e] : 0.0f;
  }
  follow_previous_kernels();
  const bool image = op.image != nullptr && op.image[m] != 0;
  Choice own[kMost];  // taken: kNone
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int e = i * kThreads + static_cast<int>(threadIdx.x);
    own[i] = {kNone, INT32_MAX};
    if (e >= experts) continue;
    const float x = row_of(arguments.scores, m)[e];
    const float s = sqrtf(x > 20.0f ? x : log1pf(expf(x)));
    score[e] = s;
    own[i] = {rank_of(s + (image ? op.bias_image[e] : bias[i])), e};
  }
  for (int k = 0; k < op.top_k; ++k) {
    Choice best = own[0];
#pragma unroll
    for (int i = 1; i < kMost; ++i)
      if (own[i].rank > best.rank) best = own[i];  // of equals the first, whose expert is lower
    best = best_of_lanes(best);
    if (lane == 0) lists[warp * op.top_k + k] = best;
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      if (own[i].expert == best.expert) own[i].rank = kNone;
  }
  __syncthreads();
  if (warp > 0) return;
  int at = 0;  // of the list of warp `lane`
  float sum = 0;
  for (int k = 0; k < op.top_k; ++k) {
    const Choice head = lane < kWarps ? lists[lane * op.top_k + at] : Choice{kNone, INT32_MAX};
    const int best = best_of_lanes(head).expert;
    if (head.expert == best && at + 1 < op.top_k) ++at;
    sum += score[best];
    if (lane == 0) {
      chosen[k] = best;
      row_of(op.expert, m)[k] = best;
    }
  }
  sum += 1e-20f;
  __syncwarp();
  for (int k = lane; k < op.top_k; k += 32) row_of(op.weight, m)[k] = score[chosen[k]] / sum * op.scaling;
}

}  // namespace

Status any_route(const Route& op, MatrixView<const float> scores, Stream stream) {
  DI_CHECK(op.expert.columns == op.top_k && op.weight.columns == op.top_k && op.top_k <= scores.columns,
           "expert and weight are [rows, top_k], top_k is at most the number of experts");
  constexpr int kFew = 4, kMany = 16;  // experts of a thread
  DI_CHECK(scores.columns <= kMany * kThreads, "a thread has at most 16 experts");
  const Arguments arguments{op, scores};
  const int64_t shared = (scores.columns + 1) / 2 * 8 + op.top_k * int64_t{kWarps * sizeof(Choice) + sizeof(int)};
  return launch(scores.columns <= kFew * kThreads ? route<kFew> : route<kMany>, "any_route",
                dim3(blocks(scores.rows)), kThreads, shared, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
