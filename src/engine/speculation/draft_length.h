// DraftLength: how many drafts a single sequence verifies in its next round, from what rounds have cost and brought so
// far.  For the generator, which has no time to measure before its first token; it changes speed, never tokens.
#pragma once

#include <array>
#include <cstdint>

#include "scheduling/request.h"

namespace deepinfer {

class DraftLength {
 public:
  static constexpr int kMost = 16;

  // Drafts of the next round, at most `most` (<= kMost).
  int next(int most);
  // What the round took: drawing its drafts, running its rows; how many drafts were judged before the answer ended, and
  // how many of them came true.
  void record(int drafts, Time drafting, Time running, int judged, int accepted);

 private:
  // A mean that forgets: the last ten or so samples count.
  struct Mean {
    double value = 0;
    int64_t samples = 0;
    void add(double sample);
  };
  // Rounds of each kind before anything is decided, and between two looks at what is not in use.
  static constexpr int kFirstRounds = 2;
  static constexpr int kLookAgain = 64;

  double running(int drafts) const;
  double tokens(int drafts) const;

  std::array<Mean, kMost + 1> running_{};  // by drafts, nanoseconds
  Mean drafting_;
  std::array<Mean, kMost> survival_{};  // chance that draft i and all before it come true
  int most_ = 0;
  int64_t rounds_ = 0;
};

}  // namespace deepinfer
