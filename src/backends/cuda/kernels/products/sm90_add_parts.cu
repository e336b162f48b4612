// A thread an output.
#include <cuda_bf16.h>

#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/products/sm90_add_parts.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

struct Arguments {
  PartSums parts;
  int64_t y_stride;
  uint16_t* y;
  float* y32;
};

__global__ void __launch_bounds__(kThreads) add_parts(const Arguments arguments) {
  follow_previous_kernels();
  const int64_t output = int64_t{blockIdx.x} * kThreads + threadIdx.x, row = blockIdx.y;
  const auto& [sums, rows, n, parts] = arguments.parts;
  if (output >= n) return;
  const float* const from = sums + row * n + output;
  float sum = from[0];
#pragma unroll 8
  for (int part = 1; part < parts; ++part) sum += from[part * rows * n];
  const int64_t to = row * arguments.y_stride + output;
  if (arguments.y32 != nullptr) {
    arguments.y32[to] = sum;
  } else {
    arguments.y[to] = __bfloat16_as_ushort(__float2bfloat16_rn(sum));
  }
}

}  // namespace

Status sm90_add_parts(const PartSums& parts, uint16_t* y, float* y32, int64_t y_stride, Stream stream) {
  return launch(add_parts, "sm90_add_parts", dim3(blocks(divided_up(parts.n, kThreads)), blocks(parts.rows)), kThreads,
                0, stream, Arguments{parts, y_stride, y, y32}, kEarly);
}

}  // namespace deepinfer::cuda
