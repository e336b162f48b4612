// One block a row.  y may be x: a thread reads its values before it writes them, and the others' only by their squares.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) rms_norm(const RmsNorm op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, d = op.x.columns;
  const bf16* x = row_of(op.x, m);
  bf16* y = row_of(op.y, m);
  float squares = 0;
  for (int64_t c = threadIdx.x; c < d; c += kThreads) squares += widen(x[c]) * widen(x[c]);
  const float sum = block_sum<kThreads>(squares);
  const float r = 1.0f / sqrtf(sum / static_cast<float>(d) + op.eps);
  for (int64_t c = threadIdx.x; c < d; c += kThreads) y[c] = round_to_bf16(widen(op.weight[c]) * (widen(x[c]) * r));
}

}  // namespace

Status any_rms_norm(const RmsNorm& op, Stream stream) {
  return launch(rms_norm, "any_rms_norm", dim3(blocks(op.x.rows)), kThreads, 0, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
