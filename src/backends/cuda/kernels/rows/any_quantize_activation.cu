// One warp a group of 32 columns.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) quantize_activation(const QuantizeActivation op) {
  follow_previous_kernels();
  const int64_t group = int64_t{blockIdx.y} * (kThreads / 32) + warp_id();
  if (group * kFp8Group >= op.x.columns) return;
  const int64_t column = group * kFp8Group + lane_id();
  const float x = widen(row_of(op.x, blockIdx.x)[column]);
  const uint32_t scale = fp8_scale(warp_max(fabsf(x)));
  const float value = e4m3_value(e4m3_code(x * reciprocal_of_scale(scale)));
  row_of(op.y, blockIdx.x)[column] = round_to_bf16(value * e8m0_value(scale));
}

}  // namespace

Status any_quantize_activation(const QuantizeActivation& op, Stream stream) {
  DI_CHECK(op.x.columns % kFp8Group == 0, "activations are rounded in groups of 32");
  return launch(quantize_activation, "any_quantize_activation",
                dim3(blocks(op.x.rows), blocks(divided_up(op.x.columns, kThreads))), kThreads, 0, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
