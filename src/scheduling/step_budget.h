// StepBudget: how many prefill rows may join a step so that the streams in it do not wait too long.  Used by the
// scheduler; learns from the steps that were run.
//
// Model: a step of d decode rows and r prefill rows takes base(d) + r * row.
// - base(d): the shortest of the last decode-only steps, less where d is less than it was then.  A shorter mixed step
//   with as many decode rows corrects it downwards.
// - row: the largest (time - base) / r of the last steps with at least least_chunk prefill rows.
// A base that is too low makes a row too dear: then the prediction is right for as many rows as were run last and too
// high for more, so the number of rows comes near the bound from below.  Rows grow at most twofold over the steps
// remembered.  A context that gets longer makes rows dearer slowly against kRemembered steps.
#pragma once

#include <array>
#include <cstdint>

#include "scheduling/request.h"

namespace deepinfer {

class StepBudget {
 public:
  StepBudget(Time decode_latency, int64_t least_chunk);

  void observe(int64_t decode_rows, int64_t prefill_rows, Time duration);
  // Prefill rows beside this many decode rows, at least least_chunk.  Without decode rows there is no bound.
  int64_t prefill_rows(int64_t decode_rows) const;

 private:
  static constexpr int kRemembered = 8;
  // Of the bound, for what varies between two steps.
  static constexpr double kUsed = 0.9;

  struct Step {
    double decode_rows = 0, prefill_rows = 0, seconds = 0;
  };
  // The last kRemembered steps of a sort, in any order.
  class History {
   public:
    void add(const Step& step);
    const Step* begin() const { return steps_.data(); }
    const Step* end() const { return steps_.data() + count_; }
    bool empty() const { return count_ == 0; }

   private:
    std::array<Step, kRemembered> steps_;
    int count_ = 0, next_ = 0;
  };

  double base_seconds(double decode_rows) const;

  double bound_seconds_;
  int64_t least_chunk_;
  History decode_only_, with_prefill_;
};

}  // namespace deepinfer
