#include "ops/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "ops/reference/ordered_dot.h"
#include "ops/reference/reference.h"
#include "tensor/formats.h"

namespace deepinfer::reference {
namespace {

// The visible rows of one query, decoded, in the order of the sums.
class VisibleRows {
 public:
  explicit VisibleRows(int64_t width) : width_(width), row_(static_cast<size_t>(width)) {}

  void clear() { values_.clear(); }
  int64_t count() const { return static_cast<int64_t>(values_.size()) / width_; }
  const float* row(int64_t j) const { return values_.data() + j * width_; }

  void add_window(const uint8_t* record) {
    decode_fp8_row(record, width_, row_.data());
    append();
  }
  void add_compressed(const uint8_t* record) {
    decode_main_kv_row(record, width_, row_.data());
    append();
  }

 private:
  void append() {
    for (const bf16 value : row_) values_.push_back(to_float(value));
  }

  int64_t width_;
  std::vector<bf16> row_;
  std::vector<float> values_;  // [count, width]
};

void collect_window(const SparseAttention& op, const AttentionSequence& sequence, int64_t position, VisibleRows& rows) {
  int64_t first = position - op.window_size + 1;
  int64_t last = position;
  if (op.window == SparseAttention::Window::kDraftBlock) {
    DI_CHECK(sequence.step_position == sequence.position, "a draft block follows its context");
    first = sequence.position - op.window_size;
    last = sequence.position + sequence.step_records - 1;
  }
  for (int64_t p = std::max(first, sequence.first_visible); p <= last; ++p) {
    const int64_t in_step = p - sequence.step_position;
    DI_CHECK(in_step < sequence.step_records, "every query has its own record in the step");
    rows.add_window(in_step >= 0 ? op.step_records.row(sequence.first_record + in_step)
                                 : reinterpret_cast<const uint8_t*>(sequence.ring.record(p)));
  }
}

void collect_compressed(const SparseAttention& op, const AttentionSequence& sequence, int64_t m, VisibleRows& rows) {
  if (op.selected.data == nullptr) return;
  DI_CHECK(sequence.compressed.record_bytes == main_kv_record_bytes(op.head_dim),
           "compressed rows have the head's width");
  for (int64_t i = 0; i < op.selected.columns && op.selected.row(m)[i] >= 0; ++i) {
    rows.add_compressed(reinterpret_cast<const uint8_t*>(sequence.compressed.record(op.selected.row(m)[i])));
  }
}

// One head over decoded rows; keys holds the same rows, ready for the products with q.
void attend(const float* q, const VisibleRows& rows, const OrderedDot& keys, float scale, float sink, int64_t width,
            bf16* o) {
  std::vector<float> p(static_cast<size_t>(rows.count()));
  keys.multiply(q, p.data());
  float top = -1e30f;
  for (float& s : p) {
    s *= scale;
    top = std::max(top, s);
  }
  float denominator = 0;
  for (float& s : p) {
    s = std::exp(s - top);
    denominator += s;
  }
  denominator += std::exp(sink - top);
  std::vector<float> sum(static_cast<size_t>(width), 0.0f);
  for (int64_t j = 0; j < rows.count(); ++j) {
    const float weight = to_float(to_bf16(p[j]));
    const float* value = rows.row(j);
    for (int64_t c = 0; c < width; ++c) sum[c] += weight * value[c];
  }
  for (int64_t c = 0; c < width; ++c) o[c] = to_bf16(sum[c] / denominator);
}

}  // namespace

void sparse_attention(const SparseAttention& op) {
  const int64_t width = op.head_dim;
  DI_CHECK(op.q.columns == op.heads * width && op.o.columns == op.q.columns, "q and o are [rows, heads * head_dim]");
  const float scale = static_cast<float>(std::pow(static_cast<double>(width), -0.5));
  VisibleRows rows(width);
  OrderedDot keys;
  std::vector<float> q(static_cast<size_t>(width));
  const bool rotates = op.table.pairs > 0;
  if (rotates) rope(op.query_rotation());
  for (int s = 0; s < op.sequence_count; ++s) {
    const AttentionSequence& sequence = op.sequences[s];
    for (int64_t i = 0; i < sequence.rows; ++i) {
      const int64_t m = sequence.first_row + i;
      rows.clear();
      collect_window(op, sequence, sequence.position + i, rows);
      collect_compressed(op, sequence, m, rows);
      keys.resize(rows.count(), width);
      for (int64_t j = 0; j < rows.count(); ++j) keys.set_row(j, rows.row(j));
      for (int64_t h = 0; h < op.heads; ++h) {
        for (int64_t c = 0; c < width; ++c) q[c] = to_float(op.q.row(m)[h * width + c]);
        attend(q.data(), rows, keys, scale, op.sink[h], width, op.o.row(m) + h * width);
      }
    }
  }
  if (!rotates) return;
  rope(op.output_rotation());
  quantize_activation({op.o, op.o});
}

}  // namespace deepinfer::reference
