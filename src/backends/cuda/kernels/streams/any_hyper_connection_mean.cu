// One thread a channel.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) mean(const HyperConnectionMean op) {
  follow_previous_kernels();
  const int64_t d = op.x.columns, c = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (c >= d) return;
  const bf16* x = row_of(op.streams, blockIdx.x);
  const float sum = ((widen(x[c]) + widen(x[d + c])) + widen(x[2 * d + c])) + widen(x[3 * d + c]);
  row_of(op.x, blockIdx.x)[c] = round_to_bf16(sum / kHyperCopies);
}

}  // namespace

Status any_hyper_connection_mean(const HyperConnectionMean& op, Stream stream) {
  DI_CHECK(op.streams.columns == kHyperCopies * op.x.columns, "streams is [rows, 4 d]");
  return launch(mean, "any_hyper_connection_mean", dim3(blocks(op.x.rows), blocks(divided_up(op.x.columns, kThreads))),
                kThreads, 0, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
