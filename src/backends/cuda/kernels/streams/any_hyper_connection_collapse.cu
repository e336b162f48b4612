// One block a row.  The rounded sums go to x and are read from there for the norm, each by the thread that wrote it.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) collapse(const HyperConnectionCollapse op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, d = op.x.columns;
  const bf16* streams = row_of(op.streams, m);
  const float* pre = row_of(op.pre, m);
  bf16* x = row_of(op.x, m);
  float squares = 0;
  for (int64_t c = threadIdx.x; c < d; c += kThreads) {
    float sum = pre[0] * widen(streams[c]);
#pragma unroll
    for (int j = 1; j < kHyperCopies; ++j) sum += pre[j] * widen(streams[j * d + c]);
    const bf16 rounded = round_to_bf16(sum);
    x[c] = rounded;
    squares += widen(rounded) * widen(rounded);
  }
  if (op.norm == nullptr) return;
  const float r = 1.0f / sqrtf(block_sum<kThreads>(squares) / static_cast<float>(d) + op.eps);
  for (int64_t c = threadIdx.x; c < d; c += kThreads) x[c] = round_to_bf16(widen(op.norm[c]) * (widen(x[c]) * r));
}

}  // namespace

Status any_hyper_connection_collapse(const HyperConnectionCollapse& op, Stream stream) {
  DI_CHECK(op.streams.columns == kHyperCopies * op.x.columns && op.pre.columns == kHyperCopies,
           "streams is [rows, 4 d], pre [rows, 4]");
  return launch(collapse, "any_hyper_connection_collapse", dim3(blocks(op.x.rows)), kThreads, 0, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
