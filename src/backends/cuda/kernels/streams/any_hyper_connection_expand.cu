// One block a row, which also makes the next sublayer's input: the new streams are at hand.  Without that, one thread
// 8 channels of all four copies.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/kernels/streams/sublayer_input.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kC = kHyperCopies;
constexpr int kThreads = 128;  // where there is no next

struct Coefficients {
  float post[kC], comb[kC * kC];
};

__device__ __forceinline__ Coefficients coefficients_of(const HyperConnectionExpand& op, int64_t m) {
  Coefficients of_row;
#pragma unroll
  for (int j = 0; j < kC; ++j) of_row.post[j] = row_of(op.post, m)[j];
#pragma unroll
  for (int i = 0; i < kC * kC; ++i) of_row.comb[i] = row_of(op.comb, m)[i];
  return of_row;
}

// `copies` becomes the new streams.
template <bool kAligned>
__device__ __forceinline__ void expand_channels(const HyperConnectionExpand& op, const Coefficients& of_row, int64_t m,
                                                int64_t c, float (&copies)[kC][kChannels]) {
  const auto& [post, comb] = of_row;
  const int64_t d = op.y.columns;
  bf16* streams = row_of(op.streams, m);
  float y[kChannels], old[kC][kChannels];
  load_channels<kAligned>(row_of(op.y, m), c, d, y);
#pragma unroll
  for (int i = 0; i < kC; ++i) load_channels<kAligned>(streams + i * d, c, d, old[i]);
#pragma unroll
  for (int j = 0; j < kC; ++j) {
#pragma unroll
    for (int channel = 0; channel < kChannels; ++channel) {
      float sum = comb[j] * old[0][channel];
#pragma unroll
      for (int i = 1; i < kC; ++i) sum += comb[i * kC + j] * old[i][channel];
      copies[j][channel] = widen(round_to_bf16(post[j] * y[channel] + sum));
    }
    store_channels<kAligned>(streams + j * d, c, d, copies[j]);
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads) expand(const HyperConnectionExpand op) {
  follow_previous_kernels();
  const int64_t c = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * kChannels;
  float copies[kC][kChannels];
  if (c < op.y.columns) expand_channels<kAligned>(op, coefficients_of(op, blockIdx.x), blockIdx.x, c, copies);
}

template <bool kAligned>
__global__ void __launch_bounds__(kMostRowThreads) expand_and_collapse(const HyperConnectionExpand op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, d = op.y.columns;
  const Coefficients of_row = coefficients_of(op, m);
  const Mix pre = mix_of(op.next, m);
  auto* values = reinterpret_cast<bf16*>(dynamic_shared());
  float squares = 0;
  for (int64_t c = int64_t{threadIdx.x} * kChannels; c < d; c += int64_t{blockDim.x} * kChannels) {
    float copies[kC][kChannels];
    expand_channels<kAligned>(op, of_row, m, c, copies);
    collapse_channels<kAligned>(copies, pre, c, d, values, squares);
  }
  write_normed_row<kAligned>(values, squares, d, normed_row(op.next, m));
}

}  // namespace

Status any_hyper_connection_expand(const HyperConnectionExpand& op, Stream stream) {
  const int64_t d = op.y.columns;
  DI_CHECK(op.streams.columns == kC * d, "streams is [rows, 4 d]");
  const bool aligned = d % kChannels == 0 && in_units_of_channels(op.y) && in_units_of_channels(op.streams);
  if (op.next.x.data == nullptr)
    return launch(aligned ? expand<true> : expand<false>, "any_hyper_connection_expand",
                  dim3(blocks(op.y.rows), blocks(divided_up(d, kThreads * kChannels))), kThreads, 0, stream, op,
                  kEarly);
  DI_CHECK(op.next.streams.data == op.streams.data && op.next.x.columns == d && op.next.pre.columns == kC &&
               op.next.x.rows == op.y.rows,
           "the next input is made of the same rows");
  DI_CHECK(op.next.quantized.data == nullptr || d % kFp8Group == 0, "inputs are rounded in groups of 32");
  return launch(aligned && in_units_of_channels(op.next) ? expand_and_collapse<true> : expand_and_collapse<false>,
                "any_hyper_connection_expand, next input", dim3(blocks(op.y.rows)), row_threads(d), d * 2, stream, op,
                kEarly);
}

}  // namespace deepinfer::cuda
