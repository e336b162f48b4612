// One block a row.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/kernels/streams/sublayer_input.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

template <bool kAligned>
__global__ void __launch_bounds__(kMostRowThreads) collapse(const HyperConnectionCollapse op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, d = op.x.columns;
  const bf16* streams = row_of(op.streams, m);
  const Mix pre = mix_of(op, m);
  auto* values = reinterpret_cast<bf16*>(dynamic_shared());
  float squares = 0;
  for (int64_t c = int64_t{threadIdx.x} * kChannels; c < d; c += int64_t{blockDim.x} * kChannels) {
    float copies[kHyperCopies][kChannels];
#pragma unroll
    for (int j = 0; j < kHyperCopies; ++j) load_channels<kAligned>(streams + j * d, c, d, copies[j]);
    float x[kChannels];
    squares += collapse_channels(copies, pre, x);
    store_channels<kAligned>(values, c, d, x);
  }
  write_normed_row<kAligned>(values, squares, d, normed_row(op, m));
}

}  // namespace

Status any_hyper_connection_collapse(const HyperConnectionCollapse& op, Stream stream) {
  const int64_t d = op.x.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d && op.pre.columns == kHyperCopies,
           "streams is [rows, 4 d], pre [rows, 4]");
  DI_CHECK(op.quantized.data == nullptr || d % kFp8Group == 0, "inputs are rounded in groups of 32");
  return launch(in_units_of_channels(op) ? collapse<true> : collapse<false>, "any_hyper_connection_collapse",
                dim3(blocks(op.x.rows)), row_threads(d), d * 2, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
