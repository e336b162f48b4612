// A block for some heads of a row: the angles first, once for all of them.
#include <algorithm>

#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/rotation.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostPairs = 256;
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
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += kThreads) {
    rotations[i] = rotation_at(op.position[m], op.table.frequencies[i]);
    if (op.inverse) rotations[i].sin = -rotations[i].sin;
  }
  __syncthreads();
  bf16* x = row_of(op.x, m);
  const int first = static_cast<int>(blockIdx.y) * arguments.heads, heads = min(arguments.heads, op.heads - first);
  for (int at = static_cast<int>(threadIdx.x); at < heads * pairs; at += kThreads) {
    const int head = first + at / pairs, i = at % pairs;
    rotate_pair(x + int64_t{head + 1} * op.head_dim - 2 * (pairs - i), rotations[i]);
  }
}

}  // namespace

Status any_rope(const Rope& op, Stream stream) {
  DI_CHECK(op.table.pairs <= kMostPairs && 2 * op.table.pairs <= op.head_dim &&
               op.x.columns == int64_t{op.heads} * op.head_dim,
           "x is [rows, heads * head_dim] and the rotated channels are part of a head");
  if (op.x.rows == 0) return {};
  const int64_t parts = std::clamp<int64_t>(kGoodBlocks / op.x.rows, 1, op.heads);
  const Arguments arguments{
      op, static_cast<int>(std::max(divided_up(op.heads, parts), divided_up(kThreads, std::max(op.table.pairs, 1))))};
  return launch(rope, "any_rope", dim3(blocks(op.x.rows), blocks(divided_up(op.heads, arguments.heads))), kThreads, 0,
                stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
