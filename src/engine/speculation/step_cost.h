// StepCost: how long a decode step takes by its number of rows, and drafting by its number of sequences.  Measured when
// an engine opens (or read from the file of an earlier start) and asked in every step: a table, no model of the
// machine.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduling/request.h"

namespace deepinfer {

class StepCost {
 public:
  struct Point {
    int64_t size = 0;  // rows, or sequences
    Time time{0};
  };

  StepCost() = default;
  // Points in any order; times are made non-decreasing in size (noise never says that more rows are cheaper).
  StepCost(std::vector<Point> verify, std::vector<Point> draft);

  bool known() const { return !verify_.empty(); }
  // Of a step of `rows` decode rows; between measured sizes the straight line, beyond the last its slope.
  Time verify(int64_t rows) const { return at(verify_, rows); }
  Time draft(int64_t sequences) const { return at(draft_, sequences); }

  const std::vector<Point>& verify_points() const { return verify_; }
  const std::vector<Point>& draft_points() const { return draft_; }

 private:
  static Time at(const std::vector<Point>& points, int64_t size);

  std::vector<Point> verify_, draft_;
};

}  // namespace deepinfer
