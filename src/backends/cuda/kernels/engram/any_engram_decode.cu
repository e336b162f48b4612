// One thread a value.
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/engram/engram.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;

struct Arguments {
  const uint8_t* gathered;
  int64_t lookups, width;
  MatrixView<bf16> e;
};

__global__ void __launch_bounds__(kThreads) engram_decode(const Arguments arguments) {
  follow_previous_kernels();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x, width = arguments.width;
  if (column >= arguments.e.columns) return;
  const int64_t lookup = column / width, c = column % width;
  const uint8_t* record = arguments.gathered + (blockIdx.x * arguments.lookups + lookup) * (width + width / kFp8Group);
  row_of(arguments.e, blockIdx.x)[column] =
      round_to_bf16(e4m3_value(record[c]) * e8m0_value(record[width + c / kFp8Group]));
}

}  // namespace

Status any_engram_decode(const uint8_t* gathered, int lookups, int64_t width, MatrixView<bf16> e, Stream stream) {
  DI_CHECK(e.columns == lookups * width, "e is [rows, lookups * width]");
  const Arguments arguments{gathered, lookups, width, e};
  return launch(engram_decode, "any_engram_decode", dim3(blocks(e.rows), blocks(divided_up(e.columns, kThreads))),
                kThreads, 0, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
