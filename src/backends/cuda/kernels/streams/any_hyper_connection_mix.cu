// A warp holds the 24 rows of fn for a part of kMixColumns columns in registers and takes rows of the streams past it;
// the sums of a row's parts are added in ascending order, and 16 lanes make its coefficients.  Few rows: one kernel,
// the warp that ends last makes the coefficients.  Many rows: a warp takes several, and a second kernel makes them.
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/row_channels.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kC = kHyperCopies;
constexpr int kSums = static_cast<int>(kMixSums);
constexpr int kMixes = kSums - 1;
constexpr int kRowThreads = 128;    // of the second kernel: a warp a row
constexpr int64_t kRowGroups = 13;  // with 80 parts of a row, as many warps as 132 multiprocessors hold
static_assert(kMixColumns == 32 * kChannels && kSums <= 32 && kRowGroups <= kMixCounters);

struct Arguments {
  HyperConnectionMix op;
  float* parts;       // [rows][part count][kSums]
  int32_t* finished;  // [rows]: parts that are done; 0 before and after
  int64_t part_count, rows_a_warp;
};

template <bool kAligned>
__device__ __forceinline__ void load_fn(const float* fn, int64_t c, int64_t width, float (&to)[kChannels]) {
  if constexpr (kAligned) {
#pragma unroll
    for (int i = 0; i < kChannels; i += 4) {
      const uint4 words = *reinterpret_cast<const uint4*>(fn + c + i);
      to[i] = __uint_as_float(words.x);
      to[i + 1] = __uint_as_float(words.y);
      to[i + 2] = __uint_as_float(words.z);
      to[i + 3] = __uint_as_float(words.w);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) to[i] = c + i < width ? fn[c + i] : 0.0f;
  }
}

// Lane i gets the sum of sums[i] over the lanes: each step halves what a lane holds.
template <int kStep>
__device__ __forceinline__ void halve(float (&sums)[32]) {
  const bool upper = (lane_id() & kStep) != 0;
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    const float kept = upper ? sums[i + kStep] : sums[i], given = upper ? sums[i] : sums[i + kStep];
    sums[i] = kept + __shfl_xor_sync(kAllLanes, given, kStep);
  }
}
__device__ __forceinline__ float sum_of_lane(float (&sums)[32]) {
  halve<16>(sums);
  halve<8>(sums);
  halve<4>(sums);
  halve<2>(sums);
  halve<1>(sums);
  return sums[0];
}

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// Of the lanes first, first + step, ..., in that order.
__device__ __forceinline__ float sum_of_four(float value, int first, int step) {
  const float a = __shfl_sync(kAllLanes, value, first), b = __shfl_sync(kAllLanes, value, first + step);
  const float c = __shfl_sync(kAllLanes, value, first + 2 * step), d = __shfl_sync(kAllLanes, value, first + 3 * step);
  return ((a + b) + c) + d;
}

// Lane 4 i + j, and the one 16 above it, holds element (i, j): row softmax, then columns, and (rows, columns) for the
// remaining iterations.
__device__ float make_doubly_stochastic(float value, const HyperConnectionWeights& weights) {
  const int row = lane_id() % 16 / kC * kC, column = lane_id() % kC;
  float top = value;
  top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
  top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
  value = expf(value - top);
  value = value / sum_of_four(value, row, 1) + weights.hc_eps;
  value /= sum_of_four(value, column, kC) + weights.hc_eps;
  for (int i = 1; i < weights.sinkhorn_iterations; ++i) {
    value /= sum_of_four(value, row, 1) + weights.hc_eps;
    value /= sum_of_four(value, column, kC) + weights.hc_eps;
  }
  return value;
}

// By one warp, from the parts of row m.
__device__ void make_coefficients(const Arguments& arguments, int64_t m) {
  const HyperConnectionMix& op = arguments.op;
  const HyperConnectionWeights& w = op.weights;
  const int lane = lane_id();
  float mix = 0;
  if (lane < kSums) {
    const float* parts = arguments.parts + m * arguments.part_count * kSums + lane;
    mix = parts[0];
#pragma unroll 16
    for (int64_t p = 1; p < arguments.part_count; ++p) mix += parts[p * kSums];
  }
  const float squares = __shfl_sync(kAllLanes, mix, kMixes);
  const float r = 1.0f / sqrtf(squares / static_cast<float>(op.streams.columns) + w.norm_eps);
  if (lane < kC) row_of(op.pre, m)[lane] = sigmoid(mix * r * w.scale[0] + w.base[lane]) + w.hc_eps;
  if (lane >= kC && lane < 2 * kC) row_of(op.post, m)[lane - kC] = 2 * sigmoid(mix * r * w.scale[1] + w.base[lane]);
  const int at = 2 * kC + lane % (kC * kC);
  const float comb = __shfl_sync(kAllLanes, mix, at) * r * w.scale[2] + w.base[at];
  const float made = make_doubly_stochastic(comb, w);
  if (lane < kC * kC) row_of(op.comb, m)[lane] = made;
}

template <bool kAligned, bool kOneRow>
__global__ void __launch_bounds__(32) mix_products(const Arguments arguments) {
  const HyperConnectionMix& op = arguments.op;
  const int64_t width = op.streams.columns, part = blockIdx.x, c = part * kMixColumns + lane_id() * kChannels;
  float fn[kMixes][kChannels] = {};
  if (c < width) {
#pragma unroll
    for (int i = 0; i < kMixes; ++i) load_fn<kAligned>(op.weights.fn + i * width, c, width, fn[i]);
  }
  follow_previous_kernels();  // they do not write weights
  const int64_t first = blockIdx.y * arguments.rows_a_warp;
  const int64_t end = kOneRow ? first + 1 : min(first + arguments.rows_a_warp, op.streams.rows);
  for (int64_t m = first; m < end; ++m) {
    float x[kChannels] = {}, sums[32] = {};
    if (c < width) load_channels<kAligned>(row_of(op.streams, m), c, width, x);
#pragma unroll
    for (int channel = 0; channel < kChannels; ++channel) {
#pragma unroll
      for (int i = 0; i < kMixes; ++i) sums[i] = __fmaf_rn(fn[i][channel], x[channel], sums[i]);
      sums[kMixes] = __fmaf_rn(x[channel], x[channel], sums[kMixes]);
    }
    const float sum = sum_of_lane(sums);
    if (lane_id() < kSums) arguments.parts[(m * arguments.part_count + part) * kSums + lane_id()] = sum;
  }
  if constexpr (kOneRow) {
    __threadfence();
    __syncwarp();
    int32_t before = 0;
    if (lane_id() == 0) before = atomicAdd(arguments.finished + first, 1);
    if (__shfl_sync(kAllLanes, before, 0) != arguments.part_count - 1) return;
    __threadfence();
    make_coefficients(arguments, first);
    if (lane_id() == 0) arguments.finished[first] = 0;
  }
}

__global__ void __launch_bounds__(kRowThreads) mix_coefficients(const Arguments arguments) {
  follow_previous_kernels();
  const int64_t m = int64_t{blockIdx.x} * (kRowThreads / 32) + warp_id();
  if (m < arguments.op.streams.rows) make_coefficients(arguments, m);
}

}  // namespace

Status any_hyper_connection_mix(const HyperConnectionMix& op, const MixScratch& scratch, Stream stream) {
  const int64_t rows = op.streams.rows, width = op.streams.columns;
  const int64_t rows_a_warp = divided_up(rows, kRowGroups);
  const Arguments arguments{op, scratch.parts, scratch.finished, divided_up(width, kMixColumns), rows_a_warp};
  const bool aligned = width % kChannels == 0 && in_units_of_channels(op.streams) &&
                       reinterpret_cast<uintptr_t>(op.weights.fn) % 16 == 0;
  if (rows_a_warp == 0) return {};
  const dim3 grid(blocks(arguments.part_count), blocks(divided_up(rows, rows_a_warp)));
  if (rows_a_warp == 1)
    return launch(aligned ? mix_products<true, true> : mix_products<false, true>, "any_hyper_connection_mix", grid, 32,
                  0, stream, arguments, kEarly);
  DI_RETURN_IF_ERROR(launch(aligned ? mix_products<true, false> : mix_products<false, false>,
                            "any_hyper_connection_mix, products", grid, 32, 0, stream, arguments, kEarly));
  return launch(mix_coefficients, "any_hyper_connection_mix, coefficients",
                dim3(blocks(divided_up(rows, kRowThreads / 32))), kRowThreads, 0, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
