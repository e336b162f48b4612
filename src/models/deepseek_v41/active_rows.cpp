#include "models/deepseek_v41/active_rows.h"

#include <algorithm>

namespace deepinfer::deepseek_v41 {

void ActiveRows::reserve(int64_t sequences, int64_t rows) {
  spans_.reserve(static_cast<size_t>(sequences));
  moves_.reserve(static_cast<size_t>(rows));
}

void ActiveRows::clear() {
  spans_.clear();
  begin_ = 0;
  count_ = 0;
}

void ActiveRows::append(int64_t rows, int64_t position) {
  spans_.push_back({count_, rows, position});
  count_ += rows;
}

std::span<const int32_t> ActiveRows::keep(FunctionRef<int64_t(size_t sequence)> from) {
  bool gaps = false;
  int64_t end_of_kept = -1;
  int64_t kept = 0;
  for (size_t s = 0; s < spans_.size(); ++s) {
    RowSpan& span = spans_[s];
    const int64_t dropped = std::clamp<int64_t>(from(s) - span.position, 0, span.rows);
    span.first_row += dropped;
    span.position += dropped;
    span.rows -= dropped;
    if (span.rows == 0) continue;
    gaps = gaps || (end_of_kept >= 0 && span.first_row != end_of_kept);
    end_of_kept = span.first_row + span.rows;
    kept += span.rows;
  }
  count_ = kept;
  moves_.clear();
  if (kept == 0) return {};
  if (!gaps) {
    begin_ = end_of_kept - kept;
    return {};
  }
  int64_t next = begin_;
  for (RowSpan& span : spans_) {
    for (int64_t i = 0; i < span.rows; ++i) moves_.push_back(static_cast<int32_t>(span.first_row + i - begin_));
    span.first_row = next;
    next += span.rows;
  }
  return moves_;
}

}  // namespace deepinfer::deepseek_v41
