// Sparse attention.  Per query row: decode the visible records once (all heads share them), scores, softmax, weighted
// sum. Many rows: one thread does a row.  Few rows: threads share each phase of a row, split by keys, heads and
// channels; no sum is ever split, so both ways give the same bits.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kMostHeadDim = 512;
constexpr int64_t kMostBlockRows = 64;  // draft rows behind a full window
constexpr int64_t kKeyChunk = 16;       // keys of a task
constexpr int64_t kChannelChunk = 64;   // channels of a task
constexpr int kHeadChunk = 16;          // heads of a task

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

const uint16_t* raw(const bf16* x) {
  return reinterpret_cast<const uint16_t*>(x);
}
uint16_t* raw(bf16* x) {
  return reinterpret_cast<uint16_t*>(x);
}

// What one query sees, in the order of the sums: window positions [first, last], then `selected` compressed rows.
struct VisibleRows {
  int64_t first;
  int64_t last;
  const int32_t* rows;
  int64_t selected;

  int64_t window() const { return std::max<int64_t>(0, last - first + 1); }
  int64_t count() const { return window() + selected; }
};

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

}  // namespace

// Of one query row.
struct Steps::AttentionScratch {
  float* q;            // [heads][head_dim]
  float* scores;       // [heads][attention_stride_]
  float* denominator;  // [heads]
  uint16_t* keys;      // [attention_keys_][head_dim]
};

void Steps::prepare_attention(const OpsLimits& limits) {
  DI_CHECK(limits.head_dim % 32 == 0 && limits.head_dim <= kMostHeadDim, "head_dim is a multiple of 32, at most 512");
  attention_keys_ = limits.window_size + std::max<int64_t>(limits.top_k, kMostBlockRows);
  attention_stride_ = round_up(attention_keys_, 16);
  attention_slots_ = pool_.threads();
  const int64_t floats = round_up(limits.heads * (int64_t{limits.head_dim} + attention_stride_ + 1), 16);
  const int64_t bytes = floats * 4 + round_up(attention_keys_ * limits.head_dim * 2, 64);
  attention_ = Buffer::allocate(static_cast<uint64_t>(attention_slots_ * bytes)).value();
}

Steps::AttentionScratch Steps::attention_scratch(int64_t slot) {
  const int64_t heads = limits_.heads, d = limits_.head_dim;
  const int64_t floats = round_up(heads * (d + attention_stride_ + 1), 16);
  const int64_t bytes = floats * 4 + round_up(attention_keys_ * d * 2, 64);
  std::byte* base = attention_.data() + slot * bytes;
  auto* q = reinterpret_cast<float*>(base);
  return {q, q + heads * d, q + heads * (d + attention_stride_), reinterpret_cast<uint16_t*>(base + floats * 4)};
}

namespace {

// Decodes keys [begin, end) of what a query sees.
void decode_keys(const StepKernels& kernels, const SparseAttention& op, const AttentionSequence& sequence,
                 const VisibleRows& visible, int64_t begin, int64_t end, uint16_t* keys) {
  const int64_t d = op.head_dim;
  for (int64_t j = begin; j < end; ++j) {
    if (j >= visible.window()) {
      const std::byte* record = sequence.compressed.record(visible.rows[j - visible.window()]);
      kernels.decode_main(reinterpret_cast<const uint8_t*>(record), d, keys + j * d);
      continue;
    }
    const int64_t position = visible.first + j, in_step = position - sequence.step_position;
    kernels.decode_fp8(in_step >= 0 ? op.step_records.row(sequence.first_record + in_step)
                                    : reinterpret_cast<const uint8_t*>(sequence.ring.record(position)),
                       d, keys + j * d);
  }
}

// The row-th query of the step, as its sequence and its offset there.
std::pair<const AttentionSequence*, int64_t> find_query(const SparseAttention& op, int64_t row) {
  const AttentionSequence* sequence = op.sequences;
  while (row >= sequence->rows) row -= sequence++->rows;
  return {sequence, row};
}

float score_scale(int head_dim) {
  return static_cast<float>(std::pow(static_cast<double>(head_dim), -0.5));
}

}  // namespace

void Steps::attend_row(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset,
                       AttentionScratch scratch) {
  const int64_t d = op.head_dim, m = sequence.first_row + offset;
  const VisibleRows visible = visible_rows(op, sequence, offset);
  const int64_t count = visible.count();
  DI_CHECK(count <= attention_keys_, "prepare() was told a smaller window or top_k");
  decode_keys(kernels_, op, sequence, visible, 0, count, scratch.keys);
  kernels_.widen(raw(op.q.row(m)), op.heads * d, scratch.q);
  kernels_.attention_scores(scratch.q, op.heads, d, scratch.keys, count, score_scale(op.head_dim), scratch.scores,
                            attention_stride_);
  for (int h = 0; h < op.heads; ++h) {
    scratch.denominator[h] = kernels_.attention_softmax(scratch.scores + h * attention_stride_, count, op.sink[h]);
  }
  for (int64_t c = 0; c < d; c += kChannelChunk) {
    kernels_.attention_values(scratch.scores, attention_stride_, op.heads, scratch.keys, count, d, c,
                              std::min(kChannelChunk, d - c), scratch.denominator, raw(op.o.row(m)));
  }
}

// One fork and join a phase for all rows together; at most attention_slots_ rows.
void Steps::attend_few_rows(const SparseAttention& op, int64_t rows) {
  const int64_t d = op.head_dim;
  const auto place = [&](int64_t row) { return find_query(op, row); };
  const int64_t key_chunks = (attention_keys_ + kKeyChunk - 1) / kKeyChunk;
  for_each_task(pool_, rows * key_chunks, [&](int64_t task, int) {
    const auto [sequence, offset] = place(task / key_chunks);
    const VisibleRows visible = visible_rows(op, *sequence, offset);
    const int64_t count = visible.count(), first = task % key_chunks * kKeyChunk;
    DI_CHECK(count <= attention_keys_, "prepare() was told a smaller window or top_k");
    const AttentionScratch scratch = attention_scratch(task / key_chunks);
    if (task % key_chunks == 0) kernels_.widen(raw(op.q.row(sequence->first_row + offset)), op.heads * d, scratch.q);
    if (first < count) {
      decode_keys(kernels_, op, *sequence, visible, first, std::min(count, first + kKeyChunk), scratch.keys);
    }
  });
  for_each_task(pool_, rows * key_chunks, [&](int64_t task, int) {
    const auto [sequence, offset] = place(task / key_chunks);
    const int64_t count = visible_rows(op, *sequence, offset).count(), first = task % key_chunks * kKeyChunk;
    if (first >= count) return;
    const AttentionScratch scratch = attention_scratch(task / key_chunks);
    kernels_.attention_scores(scratch.q, op.heads, d, scratch.keys + first * d, std::min(kKeyChunk, count - first),
                              score_scale(op.head_dim), scratch.scores + first, attention_stride_);
  });
  const int head_chunks = (op.heads + 3) / 4;
  for_each_task(pool_, rows * head_chunks, [&](int64_t task, int) {
    const auto [sequence, offset] = place(task / head_chunks);
    const int64_t count = visible_rows(op, *sequence, offset).count();
    const AttentionScratch scratch = attention_scratch(task / head_chunks);
    const auto first = static_cast<int>(task % head_chunks) * 4;
    for (int h = first; h < std::min(op.heads, first + 4); ++h) {
      scratch.denominator[h] = kernels_.attention_softmax(scratch.scores + h * attention_stride_, count, op.sink[h]);
    }
  });
  const int64_t value_heads = (op.heads + kHeadChunk - 1) / kHeadChunk;
  const int64_t value_tasks = value_heads * ((d + kChannelChunk - 1) / kChannelChunk);
  for_each_task(pool_, rows * value_tasks, [&](int64_t task, int) {
    const auto [sequence, offset] = place(task / value_tasks);
    const int64_t count = visible_rows(op, *sequence, offset).count();
    const AttentionScratch scratch = attention_scratch(task / value_tasks);
    const int64_t h = task % value_tasks % value_heads * kHeadChunk;
    const int64_t c = task % value_tasks / value_heads * kChannelChunk;
    kernels_.attention_values(scratch.scores + h * attention_stride_, attention_stride_,
                              static_cast<int>(std::min<int64_t>(kHeadChunk, op.heads - h)), scratch.keys, count, d, c,
                              std::min(kChannelChunk, d - c), scratch.denominator + h,
                              raw(op.o.row(sequence->first_row + offset)) + h * d);
  });
}

void Steps::sparse_attention(const SparseAttention& op) {
  DI_CHECK(op.q.columns == int64_t{op.heads} * op.head_dim && op.o.columns == op.q.columns,
           "q and o are [rows, heads * head_dim]");
  DI_CHECK(op.heads <= limits_.heads && op.head_dim <= limits_.head_dim && op.head_dim % 32 == 0,
           "prepare() was told fewer or narrower heads");
  int64_t rows = 0;
  for (int s = 0; s < op.sequence_count; ++s) rows += op.sequences[s].rows;
  if (rows < attention_slots_ && rows > 0) return attend_few_rows(op, rows);
  for_each_task(pool_, rows, [&](int64_t row, int thread) {
    const auto [sequence, offset] = find_query(op, row);
    attend_row(op, *sequence, offset, attention_scratch(thread));
  });
}

}  // namespace deepinfer::cpu
