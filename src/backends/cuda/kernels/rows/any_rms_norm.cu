// One block a row, which waits in shared memory for its norm.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/row_channels.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

template <bool kAligned>
__global__ void __launch_bounds__(kMostRowThreads) rms_norm(const RmsNorm op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, d = op.x.columns;
  auto* values = reinterpret_cast<bf16*>(dynamic_shared());
  float squares = 0;
  for (int64_t c = int64_t{threadIdx.x} * kChannels; c < d; c += int64_t{blockDim.x} * kChannels) {
    float x[kChannels];
    load_channels<kAligned>(row_of(op.x, m), c, d, x);
#pragma unroll
    for (float value : x) squares += value * value;
    store_channels<kAligned>(values, c, d, x);
  }
  bf16* y = row_of(op.y, m);
  write_normed_row<kAligned>(values, squares, d,
                             {op.weight, op.eps, op.quantize ? nullptr : y, op.quantize ? y : nullptr});
}

}  // namespace

Status any_rms_norm(const RmsNorm& op, Stream stream) {
  const int64_t d = op.x.columns;
  DI_CHECK(!op.quantize || d % kFp8Group == 0, "rows are rounded in groups of 32");
  const bool aligned = d % kChannels == 0 && in_units_of_channels(op.x) && in_units_of_channels(op.y) &&
                       reinterpret_cast<uintptr_t>(op.weight) % 16 == 0;
  return launch(aligned ? rms_norm<true> : rms_norm<false>, "any_rms_norm", dim3(blocks(op.x.rows)), row_threads(d),
                d * 2, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
