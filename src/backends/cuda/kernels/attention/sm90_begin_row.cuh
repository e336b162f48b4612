// The start of a row: its sequence, its visible records, q in shared memory.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/attention/record_channels.cuh"
#include "backends/cuda/kernels/attention/sm90_records.cuh"
#include "backends/cuda/kernels/attention/sm90_shape.cuh"
#include "backends/cuda/kernels/attention/visible_window.cuh"

namespace deepinfer::cuda::row_attention {

// Finds the row's sequence, fetches q and lists the records.  Ends with a barrier.
__device__ __forceinline__ Row begin_row(const Arguments& arguments, int64_t list_row, uint32_t query,
                                         const uint8_t** records, int64_t& q_row) {
  __shared__ int shared_entry;
  const SparseAttention& op = arguments.op;
  const int own = static_cast<int>(threadIdx.x);
  for (int e = own; e < arguments.list.count; e += kThreads) {
    const auto& entry = arguments.list.entries[e];
    if (entry.begin <= list_row && list_row < entry.begin + entry.sequence.rows) shared_entry = e;
  }
  __syncthreads();
  const auto& entry = arguments.list.entries[shared_entry];
  const AttentionSequence& sequence = entry.sequence;
  const int64_t i = list_row - entry.begin;
  q_row = sequence.first_row + i;
  const VisibleWindow visible = visible_window(op, sequence, i);
  const int64_t first = visible.first;
  const int window = visible.rows;

  const uint4* q = reinterpret_cast<const uint4*>(row_of(op.q, q_row));
  constexpr int kPieces = kHeads * kHeadDim / 8 / kThreads;
  uint4 pieces[kPieces];
#pragma unroll
  for (int p = 0; p < kPieces; ++p) pieces[p] = q[p * kThreads + own];
  bool aligned = true;
  const auto enter = [&](int slot, const uint8_t* record, uint32_t bytes) {
    records[slot] = record;
    if (reinterpret_cast<uintptr_t>(record) % 16 == 0) {
      bulk_prefetch(record, bytes);
    } else {
      aligned = false;
    }
  };
  int mine = 0;
  if (op.selected.data != nullptr) {
    const int32_t* selected = row_of(op.selected, q_row);
    const auto rows_per_block = static_cast<uint32_t>(sequence.compressed.rows_per_block);
    for (int s = own; s < op.selected.columns; s += kThreads) {
      const int32_t j = selected[s];
      if (j < 0) continue;
      ++mine;
      const uint32_t block = static_cast<uint32_t>(j) / rows_per_block;
      const auto* record = reinterpret_cast<const uint8_t*>(
          sequence.compressed.blocks[block] +
          static_cast<int64_t>(static_cast<uint32_t>(j) - block * rows_per_block) * sequence.compressed.record_bytes);
      enter(window + s, record, kCompressedBytes);
    }
  }
  const auto first_slot = static_cast<int>(static_cast<uint32_t>(first) % static_cast<uint32_t>(sequence.ring.slots));
  const int before = static_cast<int>(min(max(sequence.step_position - first, int64_t{0}), int64_t{window}));
  for (int s = own; s < window; s += kThreads) {
    const uint8_t* record = row_of(op.step_records, sequence.first_record + first + s - sequence.step_position);
    if (s < before) {  // fewer than there are slots
      const int at = first_slot + s, slots = static_cast<int>(sequence.ring.slots);
      record = reinterpret_cast<const uint8_t*>(sequence.ring.data) +
               (at < slots ? at : at - slots) * sequence.ring.record_bytes;
    }
    enter(s, record, kWindowBytes);
  }
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int at = p * kThreads + own, head = at / (kHeadDim / 8), piece = at % (kHeadDim / 8);
    const uint4 channels = reordered(pieces[p]);
    store_piece(piece_of(query + static_cast<uint32_t>(piece / 8 * kHeads * kRowBytes), head, piece % 8), channels.x,
                channels.y, channels.z, channels.w);
  }
  const int compressed = __syncthreads_count(mine > 0) + __syncthreads_count(mine > 1);
  aligned = __syncthreads_and(static_cast<int>(aligned)) != 0;
  return {uniform(window + compressed), window, aligned};
}

}  // namespace deepinfer::cuda::row_attention
