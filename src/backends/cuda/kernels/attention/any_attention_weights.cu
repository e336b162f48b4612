// One warp a head of a row.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/attention/slots.cuh"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kWarps = 4;

__global__ void __launch_bounds__(kWarps * 32) attention_weights(const AttentionStep step) {
  follow_previous_kernels();
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp_id(), lane = lane_id();
  if (head >= step.op.heads) return;
  const int count = slots_of(step, step.first + blockIdx.x).count;
  const int64_t at = int64_t{blockIdx.x} * step.op.heads + head;
  const float* scores = step.scores + at * step.slots;
  bf16* weights = step.weights + at * step.slots;
  float top = -1e30f;
  for (int slot = lane; slot < count; slot += 32) top = fmaxf(top, scores[slot]);
  top = warp_max(top);
  float sum = 0;
  for (int slot = lane; slot < (count + 15) / 16 * 16; slot += 32) {
    const float weight = slot < count ? expf(scores[slot] - top) : 0.0f;
    sum += weight;
    weights[slot] = round_to_bf16(weight);
  }
  sum = warp_sum(sum);
  if (lane == 0) step.denominators[at] = sum + expf(step.op.sink[head] - top);
}

}  // namespace

Status any_attention_weights(const AttentionStep& step, Stream stream) {
  return launch(attention_weights, "any_attention_weights",
                dim3(blocks(step.count), blocks(divided_up(step.op.heads, kWarps))), kWarps * 32, 0, stream, step,
                kEarly);
}

}  // namespace deepinfer::cuda
