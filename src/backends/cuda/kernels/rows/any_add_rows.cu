// One thread a value.
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) add_rows(const AddRows op) {
  follow_previous_kernels();
  const int64_t c = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (c < op.x.columns) row_of(op.y, blockIdx.x)[c] += row_of(op.x, blockIdx.x)[c];
}

}  // namespace

Status any_add_rows(const AddRows& op, Stream stream) {
  DI_CHECK(op.x.columns == op.y.columns && op.x.rows == op.y.rows, "x and y have one shape");
  return launch(add_rows, "any_add_rows", dim3(blocks(op.x.rows), blocks(divided_up(op.x.columns, kThreads))), kThreads,
                0, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
