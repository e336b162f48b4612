// Views and cached records of ops/ as device code reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/launch/sequence_list.h"
#include "ops/sequence.h"
#include "tensor/matrix.h"

namespace deepinfer::cuda {

template <typename T>
__device__ __forceinline__ T* row_of(const MatrixView<T>& view, int64_t i) {
  return view.data + i * view.stride;
}
__device__ __forceinline__ std::byte* record_of(const BlockList& list, int64_t j) {
  return list.blocks[j / list.rows_per_block] + (j % list.rows_per_block) * list.record_bytes;
}
__device__ __forceinline__ std::byte* record_of(const Ring& ring, int64_t position) {
  return ring.data + (position % ring.slots) * ring.record_bytes;
}

// The entry that row `row` of all rows of the list belongs to.
template <typename Sequence>
__device__ const SequenceEntry<Sequence>& entry_of(const SequenceList<Sequence>& list, int64_t row) {
  int low = 0, high = list.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (list.entries[middle].begin <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return list.entries[low];
}

}  // namespace deepinfer::cuda
