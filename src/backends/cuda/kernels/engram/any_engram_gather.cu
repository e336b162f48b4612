// One thread 16 values: the table may lie behind the bus, which carries whole sectors of 32 bytes.
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/engram/engram.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kValues = 16;

__global__ void __launch_bounds__(kThreads) engram_gather(const EngramGather op) {
  follow_previous_kernels();
  const int64_t column = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * kValues, width = op.table.width;
  if (column >= op.e.columns) return;
  const int64_t lookup = column / width, c = column % width;
  const int64_t row = op.row[blockIdx.x * int64_t{op.lookups} + lookup];
  uint4 codes = make_uint4(0, 0, 0, 0);
  uint32_t scale = 0;
  if (row >= 0 && row < op.table.rows) {
    codes = *reinterpret_cast<const uint4*>(op.table.weight + row * width + c);
    scale = op.table.scale[row * (width / kFp8Group) + c / kFp8Group];
  }
  const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  const float factor = e8m0_value(scale);
  uint32_t pairs[kValues / 2];
#pragma unroll
  for (int i = 0; i < kValues / 2; ++i) {
    const uint32_t two = words[i / 2] >> (i % 2 * 16);
    pairs[i] = round_to_bf16_pair(e4m3_value(two & 0xffu) * factor, e4m3_value(two >> 8 & 0xffu) * factor);
  }
  auto* const to = reinterpret_cast<uint4*>(row_of(op.e, blockIdx.x) + column);
  to[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  to[1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
}

}  // namespace

Status any_engram_gather(const EngramGather& op, Stream stream) {
  DI_CHECK(op.e.columns == op.lookups * op.table.width && op.table.width % kFp8Group == 0,
           "e is [rows, lookups * width], width in groups of 32");
  DI_CHECK(reinterpret_cast<uintptr_t>(op.table.weight) % 16 == 0 && reinterpret_cast<uintptr_t>(op.e.data) % 16 == 0 &&
               op.e.stride % 8 == 0,
           "a reachable table and rows of e lie on 16-byte boundaries");
  return launch(engram_gather, "any_engram_gather",
                dim3(blocks(op.e.rows), blocks(divided_up(op.e.columns, kThreads * kValues))), kThreads, 0, stream, op,
                kEarly);
}

}  // namespace deepinfer::cuda
