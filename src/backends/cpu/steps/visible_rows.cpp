#include "backends/cpu/steps/visible_rows.h"

#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cpu {

VisibleRows visible_rows(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset) {
  const int64_t position = sequence.position + offset;
  VisibleRows visible{position - op.window_size + 1, position, nullptr, 0};
  if (op.window == SparseAttention::Window::kDraftBlock) {
    DI_CHECK(sequence.step_position == sequence.position, "a draft block follows its context");
    visible.first = sequence.position - op.window_size;
    visible.last = sequence.position + sequence.step_records - 1;
  }
  visible.first = std::max(visible.first, sequence.first_visible);
  DI_CHECK(visible.last - sequence.step_position < sequence.step_records, "every query has its own record in the step");
  if (op.selected.data != nullptr) {
    DI_CHECK(sequence.compressed.record_bytes == main_kv_record_bytes(op.head_dim),
             "compressed rows have the head's width");
    visible.rows = op.selected.row(sequence.first_row + offset);
    while (visible.selected < op.selected.columns && visible.rows[visible.selected] >= 0) ++visible.selected;
  }
  return visible;
}

namespace {

// How far ahead records come near.  The cache of another sequence, or of this one a layer later, has left a core's own
// caches.
constexpr int64_t kRecordsAhead = 12;

const uint8_t* record_of(const SparseAttention& op, const AttentionSequence& sequence, const VisibleRows& visible,
                         int64_t j) {
  if (j >= visible.window())
    return reinterpret_cast<const uint8_t*>(sequence.compressed.record(visible.rows[j - visible.window()]));
  const int64_t position = visible.first + j, in_step = position - sequence.step_position;
  if (in_step >= 0) return op.step_records.row(sequence.first_record + in_step);
  return reinterpret_cast<const uint8_t*>(sequence.ring.record(position));
}

}  // namespace

void decode_keys(const StepKernels& kernels, const SparseAttention& op, const AttentionSequence& sequence,
                 const VisibleRows& visible, int64_t begin, int64_t end, const AttentionRow& row) {
  const int64_t d = op.head_dim, window = visible.window(), count = visible.count();
  for (int64_t j = begin; j < end; ++j) {
    if (j + kRecordsAhead < count) {
      const uint8_t* ahead = record_of(op, sequence, visible, j + kRecordsAhead);
      const int64_t bytes = j + kRecordsAhead < window ? fp8_record_bytes(d) : main_kv_record_bytes(d);
      for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(ahead + i);
    }
    const uint8_t* record = record_of(op, sequence, visible, j);
    if (row.wide_keys != nullptr) {
      (j < window ? kernels.widen_fp8 : kernels.widen_main)(record, d, row.wide_keys + j * wide_key_stride(d));
    } else {
      (j < window ? kernels.decode_fp8 : kernels.decode_main)(record, d, row.keys + j * d);
    }
  }
}

}  // namespace deepinfer::cpu
