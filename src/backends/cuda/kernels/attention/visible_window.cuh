// The window of a query: the positions whose records it sees beside the compressed ones.
#pragma once

#include <cstdint>

#include "ops/sparse_attention.h"

namespace deepinfer::cuda {

struct VisibleWindow {
  int64_t first;  // position
  int rows;
};

// Of row i of the sequence in this step.
__device__ __forceinline__ VisibleWindow visible_window(const SparseAttention& op, const AttentionSequence& sequence,
                                                        int64_t i) {
  int64_t last = sequence.position + i, first = last - op.window_size + 1;
  if (op.window == SparseAttention::Window::kDraftBlock) {
    first = sequence.position - op.window_size;
    last = sequence.position + sequence.step_records - 1;
  }
  first = max(first, sequence.first_visible);
  return {first, static_cast<int>(max(last - first + 1, int64_t{0}))};
}

}  // namespace deepinfer::cuda
