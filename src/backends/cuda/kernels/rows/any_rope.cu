// A block for some heads of a row: the angles first, once for all of them.
#include <algorithm>

#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/row_rotations.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kGoodBlocks = 256;  // beyond, a block takes more heads

struct Arguments {
  Rope op;
  int heads;  // of a block
};

__global__ void __launch_bounds__(kThreads) rope(const Arguments arguments) {
  follow_previous_kernels();
  const Rope& op = arguments.op;
  __shared__ Rotation rotations[kMostPairs];
  const int64_t m = blockIdx.x;
  const int pairs = op.table.pairs;
  make_rotations<kThreads>(op, m, rotations);
  bf16* x = row_of(op.x, m);
  const int first = static_cast<int>(blockIdx.y) * arguments.heads, heads = min(arguments.heads, op.heads - first);
  for (int at = static_cast<int>(threadIdx.x); at < heads * pairs; at += kThreads) {
    const int head = first + at / pairs, i = at % pairs;
    rotate_pair(x + int64_t{head + 1} * op.head_dim - 2 * (pairs - i), rotations[i]);
  }
}

}  // namespace

Status any_rope(const Rope& op, Stream stream) {
  DI_CHECK(rotates_part_of_heads(op), "x is [rows, heads * head_dim] and the rotated channels are part of a head");
  if (op.x.rows == 0) return {};
  const int64_t parts = std::clamp<int64_t>(kGoodBlocks / op.x.rows, 1, op.heads);
  const Arguments arguments{
      op, static_cast<int>(std::max(divided_up(op.heads, parts), divided_up(kThreads, std::max(op.table.pairs, 1))))};
  return launch(rope, "any_rope", dim3(blocks(op.x.rows), blocks(divided_up(op.heads, arguments.heads))), kThreads, 0,
                stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
