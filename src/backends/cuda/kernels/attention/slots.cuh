// The visible rows of a query: how many there are and where their records lie.
#pragma once

#include <cstdint>

#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/attention/visible_window.cuh"

namespace deepinfer::cuda {

struct Slots {
  const AttentionSequence* sequence;
  int64_t row;             // of q, o and selected
  int64_t first_position;  // of the window
  int window, count;       // window rows, all rows
};

struct SlotRecord {
  const uint8_t* data;
  bool compressed;
};

__device__ inline Slots slots_of(const AttentionStep& step, int64_t list_row) {
  const SparseAttention& op = step.op;
  const auto& entry = entry_of(step.list, list_row);
  const AttentionSequence& sequence = entry.sequence;
  const int64_t i = list_row - entry.begin;
  const auto [first, window] = visible_window(op, sequence, i);
  int compressed = 0;
  if (op.selected.data != nullptr) {  // the first -1 of an ascending row
    const int32_t* selected = row_of(op.selected, sequence.first_row + i);
    int high = static_cast<int>(op.selected.columns);
    while (compressed < high) {
      const int middle = (compressed + high) / 2;
      if (selected[middle] >= 0) {
        compressed = middle + 1;
      } else {
        high = middle;
      }
    }
  }
  return {&sequence, sequence.first_row + i, first, window, window + compressed};
}

__device__ inline SlotRecord record_of_slot(const SparseAttention& op, const Slots& slots, int slot) {
  const AttentionSequence& sequence = *slots.sequence;
  if (slot >= slots.window) {
    const int32_t j = row_of(op.selected, slots.row)[slot - slots.window];
    return {reinterpret_cast<const uint8_t*>(record_of(sequence.compressed, j)), true};
  }
  const int64_t position = slots.first_position + slot, in_step = position - sequence.step_position;
  if (in_step >= 0) return {row_of(op.step_records, sequence.first_record + in_step), false};
  return {reinterpret_cast<const uint8_t*>(record_of(sequence.ring, position)), false};
}

// Bytes [at, at + 4 kWords) of a record, whatever its alignment.
template <int kWords>
__device__ __forceinline__ void load_words(uint32_t (&words)[kWords], const uint8_t* at) {
  if (reinterpret_cast<uintptr_t>(at) % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = reinterpret_cast<const uint32_t*>(at)[i];
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      words[i] = at[4 * i] | static_cast<uint32_t>(at[4 * i + 1]) << 8 | static_cast<uint32_t>(at[4 * i + 2]) << 16 |
                 static_cast<uint32_t>(at[4 * i + 3]) << 24;
  }
}

// Channels [channel, channel + 2 kPairs) of a row, within one group of 16, as pairs of bf16 numbers.  kPairs 4 or 8.
template <int kPairs>
__device__ __forceinline__ void load_channels(uint32_t (&pairs)[kPairs], SlotRecord record, int64_t head_dim,
                                              int64_t channel) {
  if (record.compressed) {
    uint32_t words[kPairs / 4];
    load_words<kPairs / 4>(words, record.data + channel / 2);
    const float scale = e4m3_value(record.data[head_dim / 2 + channel / kMainKvGroup]);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const uint32_t two = words[i / 4] >> (i % 4 * 8);
      const bf16 first = round_to_bf16(e2m1_value(two) * scale), second = round_to_bf16(e2m1_value(two >> 4) * scale);
      pairs[i] = first.bits | static_cast<uint32_t>(second.bits) << 16;
    }
  } else {
    uint32_t words[kPairs / 2];
    load_words<kPairs / 2>(words, record.data + channel);
    const float scale = e8m0_value(record.data[head_dim + channel / kFp8Group]);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const uint32_t two = words[i / 2] >> (i % 2 * 16);
      const bf16 first = round_to_bf16(e4m3_value(two) * scale), second = round_to_bf16(e4m3_value(two >> 8) * scale);
      pairs[i] = first.bits | static_cast<uint32_t>(second.bits) << 16;
    }
  }
}

}  // namespace deepinfer::cuda
