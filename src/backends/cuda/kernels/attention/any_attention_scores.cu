// A warp takes 16 slots of a row, decoded into fragments as weights are, and 8 kHeadTiles heads.
#include <cmath>

#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/kernels/attention/slots.cuh"
#include "backends/cuda/kernels/products/pieces.cuh"
#include "backends/cuda/kernels/products/products.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kWarps = 4;

struct Arguments {
  AttentionStep step;
  float scale;  // head_dim^-0.5
};

template <int kHeadTiles>
__global__ void __launch_bounds__(kWarps * 32) attention_scores(const Arguments arguments) {
  follow_previous_kernels();
  const AttentionStep& step = arguments.step;
  const SparseAttention& op = step.op;
  const Slots slots = slots_of(step, step.first + blockIdx.y);
  const int lane = lane_id(), first_slot = (static_cast<int>(blockIdx.x) * kWarps + warp_id()) * 16;
  const int first_head = static_cast<int>(blockIdx.z) * 8 * kHeadTiles;
  if (first_slot >= slots.count) return;
  const int64_t head_dim = op.head_dim;
  const int low_slot = first_slot + lane / 4, high_slot = low_slot + 8;
  const SlotRecord low_record = record_of_slot(op, slots, min(low_slot, slots.count - 1));
  const SlotRecord high_record = record_of_slot(op, slots, min(high_slot, slots.count - 1));
  const bf16* q = row_of(op.q, slots.row);
  float d[kHeadTiles][4] = {};
#pragma unroll 1
  for (int64_t piece = 0; piece < head_dim; piece += kProductPiece) {
    const int64_t channel = piece + lane % 4 * 16;
    uint32_t low[8] = {}, high[8] = {};
    if (channel < head_dim) {
      load_channels<8>(low, low_record, head_dim, channel);
      load_channels<8>(high, high_record, head_dim, channel);
    }
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const int head = first_head + 8 * tile + lane / 4;
      uint32_t of_head[8];
      load_bf16(of_head, q + head * head_dim + channel, head < op.heads && channel < head_dim);
      multiply_piece(d[tile], low, high, of_head);
    }
  }
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int slot = r < 2 ? low_slot : high_slot, head = first_head + 8 * tile + 2 * (lane % 4) + r % 2;
      if (slot < slots.count && head < op.heads)
        step.scores[(int64_t{blockIdx.y} * op.heads + head) * step.slots + slot] = d[tile][r] * arguments.scale;
    }
}

}  // namespace

Status any_attention_scores(const AttentionStep& step, Stream stream) {
  const Arguments arguments{step, static_cast<float>(std::pow(static_cast<double>(step.op.head_dim), -0.5))};
  const int head_tiles = step.op.heads <= 8 ? 1 : 4;
  const dim3 grid(blocks(divided_up(step.slots, kWarps * 16)), blocks(step.count),
                  blocks(divided_up(step.op.heads, 8 * head_tiles)));
  return head_tiles == 1
             ? launch(attention_scores<1>, "any_attention_scores", grid, kWarps * 32, 0, stream, arguments, kEarly)
             : launch(attention_scores<4>, "any_attention_scores", grid, kWarps * 32, 0, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
