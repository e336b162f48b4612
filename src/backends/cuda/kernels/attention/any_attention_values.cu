// A block takes 64 channels of a row, a warp 16 of them, and 8 kHeadTiles heads.  Slots pass through shared memory 64
// at a time, two neighbours in a word: the pairs along which the tensor cores add.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/kernels/attention/slots.cuh"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kChannels = kWarps * 16;  // of a block
constexpr int kStage = 64;              // slots
constexpr int kPitch = kChannels + 8;   // words from a pair of slots to the next: no bank conflicts

// Words [pair][channel] of the slots from first_slot on; what is not there is zero.
__device__ __forceinline__ void stage_slots(uint32_t (&stage)[kStage / 2][kPitch], const SparseAttention& op,
                                            const Slots& slots, int first_slot, int64_t first_channel) {
  constexpr int kPieces = kChannels / 8;  // a thread takes 8 channels of a pair of slots
  for (int i = static_cast<int>(threadIdx.x); i < kStage / 2 * kPieces; i += kThreads) {
    const int pair = i / kPieces, channel = i % kPieces * 8, slot = first_slot + 2 * pair;
    uint32_t even[4] = {}, odd[4] = {};
    if (first_channel + channel < op.head_dim) {
      if (slot < slots.count)
        load_channels<4>(even, record_of_slot(op, slots, slot), op.head_dim, first_channel + channel);
      if (slot + 1 < slots.count)
        load_channels<4>(odd, record_of_slot(op, slots, slot + 1), op.head_dim, first_channel + channel);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      stage[pair][channel + 2 * c] = (even[c] & 0xffffu) | odd[c] << 16;
      stage[pair][channel + 2 * c + 1] = even[c] >> 16 | (odd[c] & 0xffff0000u);
    }
  }
}

template <int kHeadTiles>
__global__ void __launch_bounds__(kThreads) attention_values(const AttentionStep step) {
  follow_previous_kernels();
  const SparseAttention& op = step.op;
  __shared__ uint32_t stage[kStage / 2][kPitch];
  const Slots slots = slots_of(step, step.first + blockIdx.y);
  const int lane = lane_id(), first_head = static_cast<int>(blockIdx.z) * 8 * kHeadTiles;
  const int64_t first_channel = int64_t{blockIdx.x} * kChannels, row = blockIdx.y;
  const uint32_t* weights[kHeadTiles];
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile) {
    const int head = first_head + 8 * tile + lane / 4;
    weights[tile] = head < op.heads
                        ? reinterpret_cast<const uint32_t*>(step.weights + (row * op.heads + head) * step.slots)
                        : nullptr;
  }
  float d[kHeadTiles][4] = {};
  for (int first_slot = 0; first_slot < slots.count; first_slot += kStage) {
    __syncthreads();  // the slots before have been read
    stage_slots(stage, op, slots, first_slot, first_channel);
    __syncthreads();
    for (int slot = first_slot; slot < min(first_slot + kStage, slots.count); slot += 16) {
      uint32_t a[4];
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          a[2 * h + i] = stage[(slot - first_slot) / 2 + 4 * h + lane % 4][warp_id() * 16 + lane / 4 + 8 * i];
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
        uint32_t b[2] = {0, 0};
        if (weights[tile] != nullptr) {
          b[0] = weights[tile][slot / 2 + lane % 4];
          b[1] = weights[tile][slot / 2 + 4 + lane % 4];
        }
        mma_bf16(d[tile], a, b[0], b[1]);
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int head = first_head + 8 * tile + 2 * (lane % 4) + r % 2;
      const int64_t channel = first_channel + warp_id() * 16 + lane / 4 + 8 * (r / 2);
      if (head >= op.heads || channel >= op.head_dim) continue;
      const float o = slots.count == 0 ? 0.0f : d[tile][r] / step.denominators[row * op.heads + head];
      row_of(op.o, slots.row)[head * int64_t{op.head_dim} + channel] = round_to_bf16(o);
    }
}

}  // namespace

Status any_attention_values(const AttentionStep& step, Stream stream) {
  const int head_tiles = step.op.heads <= 8 ? 1 : 4;
  const dim3 grid(blocks(divided_up(step.op.head_dim, kChannels)), blocks(step.count),
                  blocks(divided_up(step.op.heads, 8 * head_tiles)));
  return head_tiles == 1 ? launch(attention_values<1>, "any_attention_values", grid, kThreads, 0, stream, step, kEarly)
                         : launch(attention_values<4>, "any_attention_values", grid, kThreads, 0, stream, step, kEarly);
}

}  // namespace deepinfer::cuda
