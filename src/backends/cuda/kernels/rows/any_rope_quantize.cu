// A block for some columns of a row, a thread 8 of them: the angles first, once for all heads.
#include <algorithm>

#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/row_channels.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/rows/row_rotations.cuh"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTurn = kThreads * kChannels;  // columns that a block takes at once
constexpr int64_t kGoodBlocks = 1024;        // beyond, a block takes more turns

struct Arguments {
  Rope op;
  int columns;  // of a block, a multiple of kTurn
};

__global__ void __launch_bounds__(kThreads) rope_quantize(const Arguments arguments) {
  follow_previous_kernels();
  __shared__ Rotation rotations[kMostPairs];
  const Rope& op = arguments.op;
  const int pairs = op.table.pairs, d = static_cast<int>(op.x.columns);
  const int64_t m = blockIdx.x;
  make_rotations<kThreads>(op, m, rotations);
  bf16* const row = row_of(op.x, m);
  const int begin = static_cast<int>(blockIdx.y) * arguments.columns, end = min(begin + arguments.columns, d);
  for (int first = begin; first < end; first += kTurn) {
    const int c = first + static_cast<int>(threadIdx.x) * kChannels;
    float x[kChannels] = {};
    if (c < end) load_channels<true>(row, c, d, x);
    const int tail = c % op.head_dim - (op.head_dim - 2 * pairs);  // channel of those that are rotated
    if (tail >= 0 && c < end) {
#pragma unroll
      for (int i = 0; i < kChannels; i += 2) {
        const RotatedPair pair = rotated(x[i], x[i + 1], rotations[(tail + i) / 2]);
        x[i] = widen(pair.first);
        x[i + 1] = widen(pair.second);
      }
    }
    round_to_fp8_groups(x);
    if (c < end) store_channels<true>(row, c, d, x);
  }
}

}  // namespace

bool any_rope_quantize_takes(const Rope& op) {
  return in_units_of_channels(op.x) && op.head_dim % kFp8Group == 0 && 2 * op.table.pairs % kChannels == 0 &&
         op.table.pairs <= kMostPairs;
}

Status any_rope_quantize(const Rope& op, Stream stream) {
  DI_CHECK(any_rope_quantize_takes(op) && rotates_part_of_heads(op),
           "x is [rows, heads * head_dim] and the rotated channels are part of a head");
  if (op.x.rows == 0) return {};
  const int64_t turns = divided_up(op.x.columns, kTurn);
  const int64_t parts = std::clamp<int64_t>(kGoodBlocks / op.x.rows, 1, turns);
  const Arguments arguments{op, static_cast<int>(divided_up(turns, parts)) * kTurn};
  return launch(rope_quantize, "any_rope_quantize",
                dim3(blocks(op.x.rows), blocks(divided_up(op.x.columns, arguments.columns))), kThreads, 0, stream,
                arguments, kEarly);
}

}  // namespace deepinfer::cuda
