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

void decode_keys(const StepKernels& kernels, const SparseAttention& op, const AttentionSequence& sequence,
                 const VisibleRows& visible, int64_t begin, int64_t end, const AttentionRow& row) {
  const int64_t d = op.head_dim;
  for (int64_t j = begin; j < end; ++j) {
    if (j >= visible.window()) {
      const std::byte* compressed = sequence.compressed.record(visible.rows[j - visible.window()]);
      const auto* record = reinterpret_cast<const uint8_t*>(compressed);
      if (row.wide_keys != nullptr) {
        kernels.widen_main(record, d, row.wide_keys + j * wide_key_stride(d));
      } else {
        kernels.decode_main(record, d, row.keys + j * d);
      }
      continue;
    }
    const int64_t position = visible.first + j, in_step = position - sequence.step_position;
    const uint8_t* record = in_step >= 0 ? op.step_records.row(sequence.first_record + in_step)
                                         : reinterpret_cast<const uint8_t*>(sequence.ring.record(position));
    if (row.wide_keys != nullptr) {
      kernels.widen_fp8(record, d, row.wide_keys + j * wide_key_stride(d));
    } else {
      kernels.decode_fp8(record, d, row.keys + j * d);
    }
  }
}

}  // namespace deepinfer::cpu
