// Sparse attention.  Per query row: decode the visible records once (all heads share them), scores, softmax, weighted
// sum.  Many rows: one thread does a row, or with few heads neighbouring rows of a sequence, which see nearly the same
// records.  Few rows: threads share each phase of a row, split by keys, heads and channels.  No sum is ever split or
// reordered, so all ways give the same bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kMostHeadDim = 512;
constexpr int64_t kMostBlockRows = 64;    // draft rows behind a full window
constexpr int64_t kMostSharedRows = 64;   // rows of a step whose phases threads share
constexpr int64_t kMostGroupRows = 8;     // neighbouring rows that share decoded records
constexpr int64_t kMostGroupHeads = 16;   // more heads of one row share them well enough
constexpr int64_t kSharedWork = 1 << 20;  // multiply-adds of a row below which three hand-offs are not worth it

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
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

// Decodes keys [begin, end) of what a query sees.
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

// Whether all values of wide keys [begin, end) are finite: without the largest exponent.
bool all_finite(const AttentionRow& row, int64_t begin, int64_t end) {
  bool bad = false;
  for (int64_t j = begin; j < end; ++j) {
    const float* key = row.wide_keys + j * wide_key_stride(row.d);
    for (int64_t c = 0; c < row.d; ++c) bad |= (std::bit_cast<uint32_t>(key[c]) & 0x7F800000) == 0x7F800000;
  }
  return !bad;
}

// Whether what the first row has selected is what the second one begins with.
bool is_prefix(const VisibleRows& first, const VisibleRows& second) {
  return first.selected <= second.selected && std::equal(first.rows, first.rows + first.selected, second.rows);
}

// The row-th query of the step, as its sequence and its offset there.
std::pair<const AttentionSequence*, int64_t> find_query(const SparseAttention& op, int64_t row) {
  const AttentionSequence* sequence = op.sequences;
  while (row >= sequence->rows) row -= sequence++->rows;
  return {sequence, row};
}

}  // namespace

// Places of a row's scratch, in bytes; of a group of rows, their heads one after the other.
struct Steps::AttentionLayout {
  // heads: of a group of rows; wide: rows have few enough heads for wide keys.
  AttentionLayout(int64_t heads, int64_t d, int64_t most_keys, bool wide, bool tiles) {
    const int64_t keys = round_up(most_keys, kKeyRange);
    const auto place = [this](int64_t size) {
      const int64_t at = bytes;
      bytes += round_up(size, 64);
      return at;
    };
    this->keys = place(wide && !tiles ? 0 : keys * d * 2);
    wide_keys = place(wide ? keys * wide_key_stride(d) * 4 : 0);
    queries = place(heads * d * 4);
    key_tiles = place(tiles ? keys * d * 2 : 0);
    scores = place(keys * heads * 4);
    own_scores = place(keys * std::min(heads, kMostGroupHeads) * 4);
    weight_tiles = place(tiles ? keys * heads * 2 : 0);
    denominator = place(heads * 4);
  }
  int64_t bytes = 0;
  int64_t keys, wide_keys, queries, key_tiles, scores, own_scores, weight_tiles, denominator;
};

Steps::AttentionLayout Steps::attention_layout() const {
  return {group_heads_, limits_.head_dim, attention_keys_, limits_.heads <= kMostGroupHeads,
          wide_attention_ != nullptr};
}

Status Steps::prepare_attention(const OpsLimits& limits) {
  DI_CHECK(limits.head_dim % 32 == 0 && limits.head_dim <= kMostHeadDim, "head_dim is a multiple of 32, at most 512");
  attention_keys_ = limits.window_size + std::max<int64_t>(limits.top_k, kMostBlockRows) + kMostGroupRows - 1;
  group_heads_ = limits.heads <= kMostGroupHeads ? kMostGroupRows * limits.heads : limits.heads;
  attention_slots_ = pool_.threads();
  const AttentionLayout layout = attention_layout();
  DI_ASSIGN_OR_RETURN(attention_, Buffer::allocate(static_cast<uint64_t>(attention_slots_ * layout.bytes)));
  return {};
}

const AttentionKernels& Steps::attention_kernels(int heads) const {
  const bool wide = wide_attention_ != nullptr && heads % wide_attention_->head_multiple == 0;
  return wide ? *wide_attention_ : *kernels_.attention;
}

AttentionRow Steps::attention_row(const SparseAttention& op, int64_t m, int64_t count, int64_t slot) {
  DI_CHECK(count <= attention_keys_, "prepare() was told a smaller window or top_k");
  const AttentionLayout layout = attention_layout();
  std::byte* const base = attention_.data() + slot * layout.bytes;
  const bool wide = limits_.heads <= kMostGroupHeads && !attention_kernels(op.heads).tiles;
  return {.heads = op.heads,
          .d = op.head_dim,
          .count = count,
          .scale = static_cast<float>(std::pow(static_cast<double>(op.head_dim), -0.5)),
          .sink = op.sink,
          .q = reinterpret_cast<const uint16_t*>(op.q.row(m)),
          .o = reinterpret_cast<uint16_t*>(op.o.row(m)),
          .keys = wide ? nullptr : reinterpret_cast<uint16_t*>(base + layout.keys),
          .wide_keys = wide ? reinterpret_cast<float*>(base + layout.wide_keys) : nullptr,
          .queries = reinterpret_cast<float*>(base + layout.queries),
          .key_tiles = reinterpret_cast<uint16_t*>(base + layout.key_tiles),
          .scores = reinterpret_cast<float*>(base + layout.scores),
          .weight_tiles = reinterpret_cast<uint16_t*>(base + layout.weight_tiles),
          .denominator = reinterpret_cast<float*>(base + layout.denominator)};
}

void Steps::attend_row(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t slot) {
  const AttentionKernels& attention = attention_kernels(op.heads);
  const VisibleRows visible = visible_rows(op, sequence, offset);
  const AttentionRow row = attention_row(op, sequence.first_row + offset, visible.count(), slot);
  decode_keys(kernels_, op, sequence, visible, 0, row.count, row);
  attention.prepare_queries(row);
  attention.prepare_keys(row, 0, row.count);
  attention.scores(row, 0, row.count);
  attention.softmax(row, 0, row.heads);
  for (int64_t c = 0; c < row.d; c += kChannelRange) {
    attention.values(row, 0, row.heads, c, std::min(kChannelRange, row.d - c));
  }
}

// Rows [offset, offset + rows) of a sequence as one row of many heads over all the records that any of them sees. Where
// a row does not see a record its weight is 0, which leaves a sum as it is unless the record holds infinities or NaNs.
// False, and nothing done, if there are such, or if what the rows have selected is no common list.
bool Steps::attend_group(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t rows,
                         int64_t slot) {
  const AttentionKernels& attention = attention_kernels(op.heads);
  if (attention.tiles || op.q.stride != op.q.columns || op.o.stride != op.o.columns) return false;
  VisibleRows visible[kMostGroupRows];
  for (int64_t i = 0; i < rows; ++i) visible[i] = visible_rows(op, sequence, offset + i);
  for (int64_t i = 1; i < rows; ++i) {
    if (!is_prefix(visible[i - 1], visible[i]) || visible[i].first < visible[i - 1].first) return false;
  }
  VisibleRows all = visible[rows - 1];
  all.first = visible[0].first;
  AttentionRow group = attention_row(op, sequence.first_row + offset, all.count(), slot);
  group.heads = static_cast<int>(rows * op.heads);
  decode_keys(kernels_, op, sequence, all, 0, all.count(), group);
  // Windows differ in as many records at both ends as there are rows more than one.
  const int64_t ends = std::min(all.window(), rows - 1), d = op.head_dim;
  if (!all_finite(group, 0, ends) || !all_finite(group, all.window() - ends, all.window()) ||
      !all_finite(group, all.window() + visible[0].selected, all.count()))
    return false;

  attention.prepare_queries(group);
  attention.scores(group, 0, group.count);
  const int64_t stride = round_up(group.count, kKeyRange);
  const AttentionLayout layout = attention_layout();
  auto* own = reinterpret_cast<float*>(attention_.data() + slot * layout.bytes + layout.own_scores);
  for (int64_t i = 0; i < rows; ++i) {
    AttentionRow row = group;
    row.heads = op.heads;
    row.count = visible[i].count();
    row.scores = own;
    row.denominator = group.denominator + i * op.heads;
    const int64_t own_stride = round_up(row.count, kKeyRange), skipped = visible[i].first - all.first;
    const int64_t window = visible[i].window(), selected = visible[i].selected;
    float* of_row = group.scores + i * op.heads * stride;
    for (int64_t h = 0; h < op.heads; ++h) {
      std::copy_n(of_row + h * stride + skipped, window, own + h * own_stride);
      std::copy_n(of_row + h * stride + all.window(), selected, own + h * own_stride + window);
    }
    attention.softmax(row, 0, op.heads);
    for (int64_t h = 0; h < op.heads; ++h) {
      float* weights = of_row + h * stride;
      std::fill_n(weights, stride, 0.0f);
      std::copy_n(own + h * own_stride, window, weights + skipped);
      std::copy_n(own + h * own_stride + window, selected, weights + all.window());
    }
  }
  for (int64_t c = 0; c < d; c += kChannelRange)
    attention.values(group, 0, group.heads, c, std::min(kChannelRange, d - c));
  return true;
}

// One fork and join a phase for all rows together; at most attention_slots_ rows.
void Steps::attend_few_rows(const SparseAttention& op, int64_t rows) {
  struct SharedRow {
    const AttentionSequence* sequence;
    VisibleRows visible;
    AttentionRow row;
  };
  const AttentionKernels& attention = attention_kernels(op.heads);
  SharedRow shared[kMostSharedRows];
  int64_t most_keys = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const auto [sequence, offset] = find_query(op, i);
    const VisibleRows visible = visible_rows(op, *sequence, offset);
    shared[i] = {sequence, visible, attention_row(op, sequence->first_row + offset, visible.count(), i)};
    most_keys = std::max(most_keys, visible.count());
  }
  for_each_task(pool_, rows, [&](int64_t i, int) { attention.prepare_queries(shared[i].row); });
  const int64_t key_ranges = (most_keys + attention.key_range - 1) / attention.key_range;
  for_each_task(pool_, rows * key_ranges, [&](int64_t task, int) {
    const auto& [sequence, visible, row] = shared[task / key_ranges];
    const int64_t first = task % key_ranges * attention.key_range;
    const int64_t count = std::min<int64_t>(attention.key_range, row.count - first);
    if (count <= 0) return;
    decode_keys(kernels_, op, *sequence, visible, first, first + count, row);
    attention.prepare_keys(row, first, count);
    attention.scores(row, first, count);
  });
  const auto heads_from = [&](int64_t first, int range) {
    return static_cast<int>(std::min<int64_t>(range, op.heads - first));
  };
  const int64_t softmax_tasks = (op.heads + attention.head_range - 1) / attention.head_range;
  for_each_task(pool_, rows * softmax_tasks, [&](int64_t task, int) {
    const auto first = static_cast<int>(task % softmax_tasks * attention.head_range);
    attention.softmax(shared[task / softmax_tasks].row, first, heads_from(first, attention.head_range));
  });
  const int64_t head_ranges = (op.heads + kHeadRange - 1) / kHeadRange;
  const int64_t value_tasks = head_ranges * ((op.head_dim + kChannelRange - 1) / kChannelRange);
  for_each_task(pool_, rows * value_tasks, [&](int64_t task, int) {
    const AttentionRow& row = shared[task / value_tasks].row;
    const auto head = static_cast<int>(task % value_tasks % head_ranges * kHeadRange);
    const int64_t channel = task % value_tasks / head_ranges * kChannelRange;
    attention.values(row, head, heads_from(head, kHeadRange), channel, std::min(kChannelRange, row.d - channel));
  });
}

void Steps::sparse_attention(const SparseAttention& op) {
  DI_CHECK(op.q.columns == int64_t{op.heads} * op.head_dim && op.o.columns == op.q.columns,
           "q and o are [rows, heads * head_dim]");
  DI_CHECK(op.heads <= limits_.heads && op.head_dim <= limits_.head_dim && op.head_dim % 32 == 0,
           "prepare() was told fewer or narrower heads");
  int64_t rows = 0;
  for (int s = 0; s < op.sequence_count; ++s) rows += op.sequences[s].rows;
  if (rows > 0 && rows < attention_slots_ && rows <= kMostSharedRows) {
    int64_t keys = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const auto [sequence, offset] = find_query(op, i);
      keys = std::max(keys, visible_rows(op, *sequence, offset).count());
    }
    if (2 * keys * op.heads * op.head_dim >= kSharedWork) return attend_few_rows(op, rows);
  }
  const int64_t group = limits_.heads <= kMostGroupHeads ? std::min(kMostGroupRows, group_heads_ / op.heads) : 1;
  const int64_t most = std::clamp<int64_t>((rows + pool_.threads() - 1) / pool_.threads(), 1, group);
  int64_t tasks = 0;
  for (int s = 0; s < op.sequence_count; ++s) tasks += (op.sequences[s].rows + most - 1) / most;
  for_each_task(pool_, tasks, [&](int64_t task, int thread) {
    const AttentionSequence* sequence = op.sequences;
    for (int64_t parts; task >= (parts = (sequence->rows + most - 1) / most); task -= parts) ++sequence;
    const int64_t begin = task * most, end = std::min(sequence->rows, begin + most);
    if (end - begin > 1 && attend_group(op, *sequence, begin, end - begin, thread)) return;
    for (int64_t offset = begin; offset < end; ++offset) attend_row(op, *sequence, offset, thread);
  });
}

}  // namespace deepinfer::cpu
