// What a query of sparse attention sees, and the way of its records into a row's scratch.  Called by the attention
// drivers of this folder.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/steps/kernels.h"
#include "ops/sparse_attention.h"

namespace deepinfer::cpu {

// What one query sees, in the order of the sums: window positions [first, last], then `selected` compressed rows.
struct VisibleRows {
  int64_t first;
  int64_t last;
  const int32_t* rows;
  int64_t selected;

  int64_t window() const { return std::max<int64_t>(0, last - first + 1); }
  int64_t count() const { return window() + selected; }
};

// Of the query at `offset` in its sequence.
VisibleRows visible_rows(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset);

// Decodes the records [begin, end) that a query sees to the keys of the same numbers.
void decode_keys(const StepKernels& kernels, const SparseAttention& op, const AttentionSequence& sequence,
                 const VisibleRows& visible, int64_t begin, int64_t end, const AttentionRow& row);

}  // namespace deepinfer::cpu
