// One thread a channel of all four copies.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kC = kHyperCopies;

__global__ void __launch_bounds__(kThreads) expand(const HyperConnectionExpand op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, d = op.y.columns, c = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (c >= d) return;
  bf16* x = row_of(op.streams, m);
  const float* post = row_of(op.post, m);
  const float* comb = row_of(op.comb, m);
  const float y = widen(row_of(op.y, m)[c]);
  float old[kC];
#pragma unroll
  for (int i = 0; i < kC; ++i) old[i] = widen(x[i * d + c]);
#pragma unroll
  for (int j = 0; j < kC; ++j) {
    float sum = comb[j] * old[0];
#pragma unroll
    for (int i = 1; i < kC; ++i) sum += comb[i * kC + j] * old[i];
    x[j * d + c] = round_to_bf16(post[j] * y + sum);
  }
}

}  // namespace

Status any_hyper_connection_expand(const HyperConnectionExpand& op, Stream stream) {
  DI_CHECK(op.streams.columns == kC * op.y.columns, "streams is [rows, 4 d]");
  return launch(expand, "any_hyper_connection_expand",
                dim3(blocks(op.y.rows), blocks(divided_up(op.y.columns, kThreads))), kThreads, 0, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
