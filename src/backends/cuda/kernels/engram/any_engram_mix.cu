// One block a copy of a row.
#include <cmath>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/engram/engram.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

struct Arguments {
  EngramMix op;
  float norm;  // d^-0.5
};

__global__ void __launch_bounds__(kThreads) engram_mix(const Arguments arguments) {
  follow_previous_kernels();
  const EngramMix& op = arguments.op;
  const int64_t m = blockIdx.x, j = blockIdx.y, d = op.streams.columns / kHyperCopies;
  if (op.dead != nullptr && op.dead[m] != 0) return;
  bf16* x = row_of(op.streams, m) + j * d;
  const bf16* key = row_of(op.kv, m) + j * d;
  const bf16* value = row_of(op.kv, m) + kHyperCopies * d;
  const bf16* query_weight = op.query_weight + j * d;
  const bf16* key_weight = op.key_weight + j * d;
  float dot = 0, x_squares = 0, key_squares = 0;
  for (int64_t c = threadIdx.x; c < d; c += kThreads) {
    const float a = widen(x[c]), b = widen(key[c]);
    dot += a * (widen(query_weight[c]) * widen(key_weight[c])) * b;
    x_squares += a * a;
    key_squares += b * b;
  }
  dot = block_sum<kThreads>(dot);
  x_squares = block_sum<kThreads>(x_squares);
  key_squares = block_sum<kThreads>(key_squares);
  const auto count = static_cast<float>(d);
  const float r = (1.0f / sqrtf(x_squares / count + op.eps)) * (1.0f / sqrtf(key_squares / count + op.eps));
  const float a = dot * r * arguments.norm;
  const float argument = copysignf(sqrtf(fmaxf(fabsf(a), 1e-6f)), a);
  const float gate = 1.0f / (1.0f + expf(-argument));
  for (int64_t c = threadIdx.x; c < d; c += kThreads) x[c] = round_to_bf16(widen(x[c]) + gate * widen(value[c]));
}

}  // namespace

Status any_engram_mix(const EngramMix& op, Stream stream) {
  const int64_t d = op.streams.columns / kHyperCopies;
  DI_CHECK(op.streams.columns == kHyperCopies * d && op.kv.columns == (kHyperCopies + 1) * d,
           "streams is [rows, 4 d], kv [rows, 5 d]");
  const Arguments arguments{op, static_cast<float>(std::pow(static_cast<double>(d), -0.5))};
  return launch(engram_mix, "any_engram_mix", dim3(blocks(op.streams.rows), kHyperCopies), kThreads, 0, stream,
                arguments, kEarly);
}

}  // namespace deepinfer::cuda
