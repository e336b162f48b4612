// One block a row.
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) embed_tokens(const EmbedTokens op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, d = op.table.columns;
  const bf16* from = row_of(op.table, op.ids[m]);
  bf16* to = row_of(op.streams, m);
  for (int64_t c = threadIdx.x; c < d; c += kThreads) {
    const bf16 value = from[c];
    for (int j = 0; j < op.copies; ++j) to[j * d + c] = value;
  }
  if (op.pre.data != nullptr && static_cast<int>(threadIdx.x) < op.copies)
    row_of(op.pre, m)[threadIdx.x] = threadIdx.x == 0 ? 1.0f : 0.0f;
}

}  // namespace

Status any_embed_tokens(const EmbedTokens& op, Stream stream) {
  return launch(embed_tokens, "any_embed_tokens", dim3(blocks(op.streams.rows)), kThreads, 0, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
