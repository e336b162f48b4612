// Sixteen channels of a slot on their way from the record into swizzled rows of a stage.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/attention/record_channels.cuh"
#include "backends/cuda/kernels/attention/sm90_shape.cuh"

namespace deepinfer::cuda::row_attention {

// Piece `piece` of 16 bytes of row `row`, swizzled.
__device__ __forceinline__ uint32_t piece_of(uint32_t rows, int row, int piece) {
  return rows + static_cast<uint32_t>(row * kRowBytes + ((piece ^ row) & 7) * 16);
}
__device__ __forceinline__ void store_piece(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Sixteen channels of one slot, the part of a stage that a thread decodes at a time.
struct Item {
  int slot;     // of the row
  int row;      // of the stage's rows
  int channel;  // of the record
  uint32_t at;  // the 64 channels' rows of the stage
  int quarter;  // of them
};

__device__ __forceinline__ void load_item(StoredChannels* items, const Item& item, const Row& row, Records records,
                                          int k) {
  if (item.slot < row.count)
    load_stored<kHeadDim>(items[k], records[item.slot], item.slot >= row.window, row.aligned,
                          static_cast<uint32_t>(item.channel));
}
template <bool kZeros>  // for slots that are not there
__device__ __forceinline__ void store_item(const StoredChannels& stored, const Item& item, const Row& row) {
  uint32_t pairs[8] = {};
  if (item.slot < row.count) {
    decode_stored(pairs, stored, item.slot >= row.window);
  } else if (!kZeros) {
    return;
  }
  store_piece(piece_of(item.at, item.row, 2 * item.quarter), pairs[0], pairs[1], pairs[2], pairs[3]);
  store_piece(piece_of(item.at, item.row, 2 * item.quarter + 1), pairs[4], pairs[5], pairs[6], pairs[7]);
}

}  // namespace deepinfer::cuda::row_attention
