// One block a row, which also makes the next sublayer's input: the new streams are at hand.  Without that, one thread
// 8 channels of all four copies.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/streams/expanded_streams.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/kernels/streams/sublayer_input.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 128;  // where there is no next

template <bool kAligned>
__global__ void __launch_bounds__(kThreads) expand(const HyperConnectionExpand op) {
  follow_previous_kernels();
  const int64_t c = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * kChannels;
  float copies[kHyperCopies][kChannels];
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
    float copies[kHyperCopies][kChannels];
    expand_channels<kAligned>(op, of_row, m, c, copies);
    float x[kChannels];
    squares += collapse_channels(copies, pre, x);
    store_channels<kAligned>(values, c, d, x);
  }
  write_normed_row<kAligned>(values, squares, d, normed_row(op.next, m));
}

}  // namespace

Status any_hyper_connection_expand(const HyperConnectionExpand& op, Stream stream) {
  const int64_t d = op.y.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d, "streams is [rows, 4 d]");
  const bool aligned = in_units_of_channels(op);
  if (op.next.x.data == nullptr)
    return launch(aligned ? expand<true> : expand<false>, "any_hyper_connection_expand",
                  dim3(blocks(op.y.rows), blocks(divided_up(d, kThreads * kChannels))), kThreads, 0, stream, op,
                  kEarly);
  check_next_input(op);
  return launch(aligned && in_units_of_channels(op.next) ? expand_and_collapse<true> : expand_and_collapse<false>,
                "any_hyper_connection_expand, next input", dim3(blocks(op.y.rows)), row_threads(d), d * 2, stream, op,
                kEarly);
}

}  // namespace deepinfer::cuda
