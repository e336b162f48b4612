// ActiveRows: the rows of a step that are still under way, sequence by sequence.  Row numbers are those of the step's
// activation matrices; rows leave at the front of their sequence as prefill drops them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"

namespace deepinfer::deepseek_v41 {

struct RowSpan {  // of one sequence; rows may be 0
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t position = 0;  // of first_row

  int64_t end() const { return position + rows; }
};

class ActiveRows {
 public:
  void reserve(int64_t sequences, int64_t rows);

  void clear();
  void append(int64_t rows, int64_t position);  // the next sequence

  std::span<const RowSpan> spans() const { return spans_; }  // one a sequence, rows in order and without gaps
  int64_t begin() const { return begin_; }                   // first row of all
  int64_t count() const { return count_; }

  // Drops the rows at positions below from(sequence).  The rows that stay are without gaps again: either they are (only
  // the front moved; returns an empty list), or row i of the list, counted from begin(), must move to row i.
  std::span<const int32_t> keep(FunctionRef<int64_t(size_t sequence)> from);

 private:
  std::vector<RowSpan> spans_;
  std::vector<int32_t> moves_;
  int64_t begin_ = 0;
  int64_t count_ = 0;
};

}  // namespace deepinfer::deepseek_v41
