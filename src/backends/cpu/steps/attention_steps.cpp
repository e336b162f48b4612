// Sparse attention.  Per query row: decode the visible records once (all heads share them), scores, softmax, weighted
// sum.  Many rows: one thread does a row, or with few heads neighbouring rows of a sequence, which see nearly the same
// records.  Few rows: threads share each phase of a row, split by keys, heads and channels.  No sum is ever split or
// reordered, so all ways give the same bits.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/cpu/steps/attention_layout.h"
#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "backends/cpu/steps/visible_rows.h"
#include "base/check.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kMostHeadDim = 512;
constexpr int64_t kMostBlockRows = 64;    // draft rows behind a full window
constexpr int64_t kMostSharedRows = 64;   // rows of a step whose phases threads share
constexpr int64_t kSharedWork = 1 << 20;  // multiply-adds of a row below which three hand-offs are not worth it

// The row-th query of the step, as its sequence and its offset there.
std::pair<const AttentionSequence*, int64_t> find_query(const SparseAttention& op, int64_t row) {
  const AttentionSequence* sequence = op.sequences;
  while (row >= sequence->rows) row -= sequence++->rows;
  return {sequence, row};
}

}  // namespace

Steps::AttentionLayout Steps::attention_layout() const {
  return {group_heads_, limits_.head_dim, attention_keys_, wide_keys(), wide_attention_ != nullptr};
}

Status Steps::prepare_attention(const OpsLimits& limits) {
  DI_CHECK(limits.head_dim % 32 == 0 && limits.head_dim <= kMostHeadDim, "head_dim is a multiple of 32, at most 512");
  attention_keys_ = limits.window_size + std::max<int64_t>(limits.top_k, kMostBlockRows) + kMostGroupRows - 1;
  group_heads_ = limits.heads <= kMostGroupHeads ? kMostGroupRows * limits.heads : limits.heads;
  if (wide_attention_ != nullptr) {
    group_heads_ = round_up(group_heads_, wide_attention_->head_multiple);
    attention_keys_ += 3 * kKeyRange;  // places that attend_tiles leaves empty
  }
  attention_slots_ = pool_.threads();
  const AttentionLayout layout = attention_layout();
  DI_ASSIGN_OR_RETURN(attention_, Buffer::allocate(static_cast<uint64_t>(attention_slots_ * layout.bytes)));
  return {};
}

bool Steps::wide_keys() const {
  return limits_.heads <= kMostGroupHeads && wide_attention_ == nullptr;
}

// Whether heads are few enough for tiles that rows fill together.  A property of the model, not of a step.
bool Steps::rows_share_tiles(int heads) const {
  return wide_attention_ != nullptr && limits_.heads <= kMostGroupHeads && heads % wide_attention_->head_multiple != 0;
}

const AttentionKernels& Steps::attention_kernels(int heads) const {
  const bool wide = wide_attention_ != nullptr && heads % wide_attention_->head_multiple == 0;
  return wide ? *wide_attention_ : *kernels_.attention;
}

AttentionRow Steps::attention_row(const SparseAttention& op, int64_t m, int64_t count, int64_t slot) {
  DI_CHECK(count <= attention_keys_, "prepare() was told a smaller window or top_k");
  const AttentionLayout layout = attention_layout();
  std::byte* const base = attention_.data() + slot * layout.bytes;
  const bool wide = wide_keys();
  return {.heads = op.heads,
          .used_heads = op.heads,
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
  attention.prepare_queries(row);
  for (int64_t first = 0; first < row.count; first += kKeyRange) {  // keys are scored while they are near
    const int64_t count = std::min(kKeyRange, row.count - first);
    decode_keys(kernels_, op, sequence, visible, first, first + count, row);
    attention.prepare_keys(row, first, count);
    attention.scores(row, first, count);
  }
  attention.softmax(row, 0, row.heads);
  for (int64_t c = 0; c < row.d; c += kChannelRange) {
    attention.values(row, 0, row.heads, c, std::min(kChannelRange, row.d - c));
  }
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
  const bool share_tiles = rows_share_tiles(op.heads);
  if (rows > 0 && rows < attention_slots_ && rows <= kMostSharedRows && !share_tiles) {
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
    if (share_tiles) {
      if (end - begin > 1 && attend_tiles(op, *sequence, begin, end - begin, thread)) return;
      for (int64_t offset = begin; offset < end; ++offset) attend_tiles(op, *sequence, offset, 1, thread);
      return;
    }
    if (end - begin > 1 && attend_group(op, *sequence, begin, end - begin, thread)) return;
    for (int64_t offset = begin; offset < end; ++offset) attend_row(op, *sequence, offset, thread);
  });
}

}  // namespace deepinfer::cpu
