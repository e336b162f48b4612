// Two kernels: the products of a row with fn, cut into parts of kMixColumns columns, one block each; then the
// coefficients, one warp a row.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kC = kHyperCopies;
constexpr int kSums = static_cast<int>(kMixSums);
constexpr int kMixes = kSums - 1;

struct Arguments {
  HyperConnectionMix op;
  float* parts;  // [rows][part count][kSums]
  int64_t part_count;
};

__global__ void __launch_bounds__(kThreads) mix_products(const Arguments arguments) {
  follow_previous_kernels();
  const HyperConnectionMix& op = arguments.op;
  const int64_t width = op.streams.columns, first = int64_t{blockIdx.y} * kMixColumns;
  const int64_t end = min(first + kMixColumns, width);
  const bf16* x = row_of(op.streams, blockIdx.x);
  float sums[kSums] = {};
  for (int64_t c = first + threadIdx.x; c < end; c += kThreads) {
    const float value = widen(x[c]);
#pragma unroll
    for (int i = 0; i < kMixes; ++i) sums[i] += op.weights.fn[i * width + c] * value;
    sums[kMixes] += value * value;
  }
  __shared__ float of_warps[kThreads / 32][kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const float sum = warp_sum(sums[i]);
    if (lane_id() == 0) of_warps[warp_id()][i] = sum;
  }
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kSums) return;
  float sum = of_warps[0][i];
  for (int warp = 1; warp < kThreads / 32; ++warp) sum += of_warps[warp][i];
  arguments.parts[(blockIdx.x * arguments.part_count + blockIdx.y) * kSums + i] = sum;
}

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

__device__ __forceinline__ void divide_by_row_sums(float (&c)[kC][kC], float eps) {
#pragma unroll
  for (int i = 0; i < kC; ++i) {
    const float sum = ((c[i][0] + c[i][1]) + c[i][2]) + c[i][3] + eps;
#pragma unroll
    for (int j = 0; j < kC; ++j) c[i][j] /= sum;
  }
}

__device__ __forceinline__ void divide_by_column_sums(float (&c)[kC][kC], float eps) {
#pragma unroll
  for (int j = 0; j < kC; ++j) {
    const float sum = ((c[0][j] + c[1][j]) + c[2][j]) + c[3][j] + eps;
#pragma unroll
    for (int i = 0; i < kC; ++i) c[i][j] /= sum;
  }
}

// Row softmax, then columns, and (rows, columns) for the remaining iterations.
__device__ void make_doubly_stochastic(float (&c)[kC][kC], const HyperConnectionWeights& weights) {
#pragma unroll
  for (int i = 0; i < kC; ++i) {
    const float top = fmaxf(fmaxf(c[i][0], c[i][1]), fmaxf(c[i][2], c[i][3]));
#pragma unroll
    for (int j = 0; j < kC; ++j) c[i][j] = expf(c[i][j] - top);
    const float sum = ((c[i][0] + c[i][1]) + c[i][2]) + c[i][3];
#pragma unroll
    for (int j = 0; j < kC; ++j) c[i][j] = c[i][j] / sum + weights.hc_eps;
  }
  divide_by_column_sums(c, weights.hc_eps);
  for (int i = 1; i < weights.sinkhorn_iterations; ++i) {
    divide_by_row_sums(c, weights.hc_eps);
    divide_by_column_sums(c, weights.hc_eps);
  }
}

__global__ void __launch_bounds__(32) mix_coefficients(const Arguments arguments) {
  follow_previous_kernels();
  const HyperConnectionMix& op = arguments.op;
  const HyperConnectionWeights& w = op.weights;
  __shared__ float mix[32];
  const int lane = lane_id();
  const int64_t m = blockIdx.x;
  if (lane < kSums) {
    const float* parts = arguments.parts + m * arguments.part_count * kSums + lane;
    float sum = parts[0];
    for (int64_t p = 1; p < arguments.part_count; ++p) sum += parts[p * kSums];
    mix[lane] = sum;
  }
  __syncwarp();
  const float r = 1.0f / sqrtf(mix[kMixes] / static_cast<float>(op.streams.columns) + w.norm_eps);
  if (lane < kC) {
    row_of(op.pre, m)[lane] = sigmoid(mix[lane] * r * w.scale[0] + w.base[lane]) + w.hc_eps;
    row_of(op.post, m)[lane] = 2 * sigmoid(mix[kC + lane] * r * w.scale[1] + w.base[kC + lane]);
  }
  if (lane != 0) return;
  float comb[kC][kC];
#pragma unroll
  for (int i = 0; i < kC; ++i)
#pragma unroll
    for (int j = 0; j < kC; ++j) {
      const int at = 2 * kC + kC * i + j;
      comb[i][j] = mix[at] * r * w.scale[2] + w.base[at];
    }
  make_doubly_stochastic(comb, w);
#pragma unroll
  for (int i = 0; i < kC; ++i)
#pragma unroll
    for (int j = 0; j < kC; ++j) row_of(op.comb, m)[i * kC + j] = comb[i][j];
}

}  // namespace

Status any_hyper_connection_mix(const HyperConnectionMix& op, float* scratch, Stream stream) {
  const Arguments arguments{op, scratch, divided_up(op.streams.columns, kMixColumns)};
  DI_RETURN_IF_ERROR(launch(mix_products, "any_hyper_connection_mix, products",
                            dim3(blocks(op.streams.rows), blocks(arguments.part_count)), kThreads, 0, stream, arguments,
                            kEarly));
  return launch(mix_coefficients, "any_hyper_connection_mix, coefficients", dim3(blocks(op.streams.rows)), 32, 0,
                stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
