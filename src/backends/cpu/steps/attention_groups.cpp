// Neighbouring rows of a sequence, which see nearly the same records, as one row of many heads.
#include <algorithm>
#include <bit>
#include <limits>

#include "backends/cpu/steps/attention_layout.h"
#include "backends/cpu/steps/steps.h"
#include "backends/cpu/steps/visible_rows.h"

namespace deepinfer::cpu {
namespace {

// Whether all values are finite: without the largest exponent.
bool all_finite(const float* values, int64_t count) {
  bool bad = false;
  for (int64_t i = 0; i < count; ++i) bad |= (std::bit_cast<uint32_t>(values[i]) & 0x7F800000) == 0x7F800000;
  return !bad;
}
bool all_finite(const uint16_t* values, int64_t count) {
  bool bad = false;
  for (int64_t i = 0; i < count; ++i) bad |= (values[i] & 0x7F80) == 0x7F80;
  return !bad;
}

// Whether what the first row has selected is what the second one begins with.
bool is_prefix(const VisibleRows& first, const VisibleRows& second) {
  return first.selected <= second.selected && std::equal(first.rows, first.rows + first.selected, second.rows);
}

// What each of the rows [offset, offset + rows) of a sequence sees.  False if there is no common list of which each row
// sees a part.
bool find_visible(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t rows,
                  VisibleRows* visible) {
  for (int64_t i = 0; i < rows; ++i) visible[i] = visible_rows(op, sequence, offset + i);
  for (int64_t i = 1; i < rows; ++i) {
    if (!is_prefix(visible[i - 1], visible[i]) || visible[i].first < visible[i - 1].first) return false;
  }
  return rows == 1 || (op.q.stride == op.q.columns && op.o.stride == op.o.columns);
}

}  // namespace

// Rows [offset, offset + rows) of a sequence as one row of many heads over all the records that any of them sees. Where
// a row does not see a record its weight is 0, which leaves a sum as it is unless the record holds infinities or NaNs.
// False, and nothing done, if there are such, or if what the rows have selected is no common list.
bool Steps::attend_group(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t rows,
                         int64_t slot) {
  const AttentionKernels& attention = attention_kernels(op.heads);
  VisibleRows visible[kMostGroupRows];
  if (attention.tiles || !find_visible(op, sequence, offset, rows, visible)) return false;
  VisibleRows all = visible[rows - 1];
  all.first = visible[0].first;
  AttentionRow group = attention_row(op, sequence.first_row + offset, all.count(), slot);
  group.heads = group.used_heads = static_cast<int>(rows * op.heads);
  decode_keys(kernels_, op, sequence, all, 0, all.count(), group);
  // Windows differ in as many records at both ends as there are rows more than one.
  const int64_t ends = std::min(all.window(), rows - 1), d = op.head_dim, key_stride = wide_key_stride(d);
  const auto finite = [&](int64_t begin, int64_t end) {
    bool good = true;
    for (int64_t j = begin; j < end; ++j) good = good && all_finite(group.wide_keys + j * key_stride, d);
    return good;
  };
  if (!finite(0, ends) || !finite(all.window() - ends, all.window()) ||
      !finite(all.window() + visible[0].selected, all.count()))
    return false;

  attention.prepare_queries(group);
  attention.scores(group, 0, group.count);
  const int64_t stride = round_up(group.count, kKeyRange);
  const AttentionLayout layout = attention_layout();
  auto* own = reinterpret_cast<float*>(attention_.data() + slot * layout.bytes + layout.own_scores);
  for (int64_t i = 0; i < rows; ++i) {
    AttentionRow row = group;
    row.heads = row.used_heads = op.heads;
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

// The same with tiles, for one row too.  A key's place in its tile must not depend on the other rows: window records
// stand by their position, compressed ones behind them from the begin of a tile; places between hold zeros.  Tiles in
// which a row sees nothing add zeros to its sums.
bool Steps::attend_tiles(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t rows,
                         int64_t slot) {
  const AttentionKernels& attention = *wide_attention_;
  VisibleRows visible[kMostGroupRows];
  if (!find_visible(op, sequence, offset, rows, visible)) return false;
  VisibleRows all = visible[rows - 1];
  all.first = visible[0].first;
  const int64_t d = op.head_dim, window = all.window(), base = all.first / kKeyRange * kKeyRange;
  const int64_t window_begin = all.first - base;
  const int64_t window_end = window > 0 ? round_up(window_begin + window, kKeyRange) : 0;
  AttentionRow group = attention_row(op, sequence.first_row + offset, window_end + all.selected, slot);
  group.used_heads = static_cast<int>(rows * op.heads);
  group.heads = static_cast<int>(round_up(group.used_heads, attention.head_multiple));
  const auto clear = [&](int64_t begin, int64_t end) {
    if (begin < end) std::fill_n(group.keys + begin * d, (end - begin) * d, uint16_t{0});
  };
  // A range of places is all of the window or all behind it.
  for (int64_t begin = 0; begin < group.count; begin += kKeyRange) {
    const int64_t end = std::min(begin + kKeyRange, group.count);
    const bool compressed = begin >= window_end;
    const int64_t skipped = compressed ? window_end - window : window_begin;  // places less keys
    const int64_t first = std::max(begin, skipped), last = compressed ? end : std::min(end, window_begin + window);
    AttentionRow part = group;
    part.keys += skipped * d;
    clear(begin, first);
    decode_keys(kernels_, op, sequence, all, first - skipped, last - skipped, part);
    clear(last, end);
    attention.prepare_keys(group, begin, end - begin);
  }
  const int64_t ends = std::min(window, rows - 1);
  const auto finite = [&](int64_t begin, int64_t end) { return all_finite(group.keys + begin * d, (end - begin) * d); };
  if (rows > 1 &&
      (!finite(window_begin, window_begin + ends) || !finite(window_begin + window - ends, window_begin + window) ||
       !finite(window_end + visible[0].selected, group.count)))
    return false;

  const AttentionLayout layout = attention_layout();
  auto* sinks = reinterpret_cast<float*>(attention_.data() + slot * layout.bytes + layout.sinks);
  for (int h = 0; h < group.heads; ++h) sinks[h] = h < group.used_heads ? op.sink[h % op.heads] : 0.0f;
  group.sink = sinks;
  attention.prepare_queries(group);
  attention.scores(group, 0, group.count);
  for (int64_t i = 0; i < rows; ++i) {
    const auto hide = [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        std::fill_n(group.scores + j * group.heads + i * op.heads, op.heads, -std::numeric_limits<float>::infinity());
      }
    };
    const int64_t begin = std::min(visible[i].first - base, window_end);
    hide(0, begin);
    hide(begin + visible[i].window(), window_end);
    hide(window_end + visible[i].selected, group.count);
  }
  attention.softmax(group, 0, group.heads);
  attention.values(group, 0, group.heads, 0, d);
  return true;
}

}  // namespace deepinfer::cpu
