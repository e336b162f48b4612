// DraftLength: whether a single sequence drafts in its next round, and how many of the drafts it verifies, from what
// rounds have cost and brought so far and from the draft model's confidence in these drafts.  For the generator, which
// has no time to measure before its first token; it changes speed, never tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation/confidence_calibration.h"
#include "engine/speculation/verify_schedule.h"
#include "scheduling/request.h"

namespace deepinfer {

class DraftLength {
 public:
  static constexpr int kMost = 64;  // the longest draft block that a configuration may have

  DraftLength();  // allocates all that it needs
  // Drafts to draw in the next round: `most` (<= kMost) or none.
  int next(int most);
  // How many of the drafts that were drawn are verified; their confidence as in DraftResult.
  int choose(std::span<const float> confidence);
  // What the round took: drawing its drafts, running its rows with `verified` of them; how many were judged before the
  // answer ended, and how many of them came true.
  void record(int verified, Time drafting, Time running, int judged, int accepted);

 private:
  // A mean that forgets: the last ten or so samples count.
  struct Mean {
    double value = 0;
    int64_t samples = 0;
    void add(double sample);
    void add_time(Time time);
  };
  // Rounds with all drafts before anything is decided, and rounds between two looks at what is not in use.
  static constexpr int kFirstRounds = 2;
  static constexpr int kLookAgain = 64;

  double running(int drafts) const;
  bool pays() const;

  std::array<Mean, kMost + 1> running_{};  // by drafts, nanoseconds
  Mean drafting_;
  Mean round_tokens_, round_time_;  // of rounds with drafts, all told
  ConfidenceCalibration calibration_;
  Survivals raw_;  // of the round's drafts
  std::vector<float> survivals_;
  bool drew_ = false;
  bool looks_again_ = false;  // verifies all, to see what comes true
  int most_ = 0;
  int64_t rounds_ = 0;
};

}  // namespace deepinfer
