// One thread 8 columns; four lanes a group of 32.
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/row_channels.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 128;

template <bool kAligned>
__global__ void __launch_bounds__(kThreads) quantize_activation(const QuantizeActivation op) {
  follow_previous_kernels();
  const int64_t c = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * kChannels, d = op.x.columns;
  float x[kChannels] = {};
  if (c < d) load_channels<kAligned>(row_of(op.x, blockIdx.x), c, d, x);
  round_to_fp8_groups(x);
  if (c < d) store_channels<kAligned>(row_of(op.y, blockIdx.x), c, d, x);
}

}  // namespace

Status any_quantize_activation(const QuantizeActivation& op, Stream stream) {
  DI_CHECK(op.x.columns % kFp8Group == 0, "activations are rounded in groups of 32");
  const bool aligned = in_units_of_channels(op.x) && in_units_of_channels(op.y);
  return launch(aligned ? quantize_activation<true> : quantize_activation<false>, "any_quantize_activation",
                dim3(blocks(op.x.rows), blocks(divided_up(op.x.columns, kThreads * kChannels))), kThreads, 0, stream,
                op, kEarly);
}

}  // namespace deepinfer::cuda
