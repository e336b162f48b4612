// A thread moves one unit of 16 bytes (or one byte, where rows are not made of such units) of all rows or of one.  In
// place a thread takes the rows in order: what it reads next lies behind what it has written, as the index ascends.
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 128;

struct Arguments {
  GatherRows op;
  int64_t rows_a_block;
};

template <typename Unit>
__global__ void __launch_bounds__(kThreads) gather_rows(const Arguments arguments) {
  follow_previous_kernels();
  const GatherRows& op = arguments.op;
  const int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (unit * static_cast<int64_t>(sizeof(Unit)) >= op.y.columns) return;
  const int64_t first = blockIdx.y * arguments.rows_a_block;
  for (int64_t i = first; i < min(first + arguments.rows_a_block, op.y.rows); ++i)
    reinterpret_cast<Unit*>(row_of(op.y, i))[unit] = reinterpret_cast<const Unit*>(row_of(op.x, op.index[i]))[unit];
}

template <typename Unit>
Status launch_units(const Arguments& arguments, Stream stream) {
  const int64_t units = arguments.op.y.columns / static_cast<int64_t>(sizeof(Unit));
  return launch(
      gather_rows<Unit>, "any_gather_rows",
      dim3(blocks(divided_up(units, kThreads)), blocks(divided_up(arguments.op.y.rows, arguments.rows_a_block))),
      kThreads, 0, stream, arguments, kEarly);
}

bool overlap(const GatherRows& op) {
  const std::byte* x_end = op.x.data + op.x.rows * op.x.stride;
  const std::byte* y_end = op.y.data + op.y.rows * op.y.stride;
  return op.x.data < y_end && op.y.data < x_end;
}

}  // namespace

Status any_gather_rows(const GatherRows& op, Stream stream) {
  if (op.y.rows == 0) return {};
  const Arguments arguments{op, overlap(op) ? op.y.rows : 1};
  const auto bits = reinterpret_cast<uintptr_t>(op.x.data) | reinterpret_cast<uintptr_t>(op.y.data) |
                    static_cast<uintptr_t>(op.x.stride | op.y.stride | op.y.columns);
  return bits % 16 == 0 ? launch_units<uint4>(arguments, stream) : launch_units<uint8_t>(arguments, stream);
}

}  // namespace deepinfer::cuda
