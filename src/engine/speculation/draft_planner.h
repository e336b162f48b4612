// DraftPlanner: which sequences of a step draft, and how many of their drafts are verified.  Owned by the step
// executor. Its choices change speed, never tokens.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/speculation/confidence_calibration.h"
#include "engine/speculation/step_cost.h"
#include "engine/speculation/verify_schedule.h"
#include "models/model.h"
#include "scheduling/request.h"

namespace deepinfer {

enum class DraftSchedule : uint8_t {
  kAll,     // every draft is verified
  kCausal,  // algorithm A of dspark.md 3.3
  kLagged,  // algorithm B of dspark.md 3.4; does not draft where it would not pay
  // As many as are best by the confidence in these very drafts; drafts where kLagged does.  Only exact verification
  // allows such a choice (dspark.md 5.2, mode E), so it does not speak for requests with rejection sampling.
  kFresh,
};

class DraftPlanner {
 public:
  DraftPlanner(DraftSchedule schedule, StepCost cost) : schedule_(schedule), cost_(std::move(cost)) {}

  // Before drafting: whether the step drafts.  `requests` could have `limits` drafts each; other_rows: prefill rows.
  bool drafts(std::span<const RequestId> requests, std::span<const int> limits, int64_t other_rows);
  // After drafting: how many drafts of each are verified, at most as many as were drawn.
  void choose(std::span<const RequestId> requests, const DraftResult& drafted, std::span<const int> drawn,
              int64_t other_rows, std::vector<int>& lengths);
  // How many drafts were judged, first to last, and how many of them came true.  What lies behind the end of an answer
  // was not judged: nothing stands against it.
  void observe(RequestId request, int64_t judged, int64_t accepted);
  void forget(RequestId request) { last_.erase(request); }

 private:
  // Rounds without drafts after which one drafts again, to see whether it pays by now.
  static constexpr int kSkippedRounds = 32;

  // Appends a list of raw survivals, corrected.
  void append_calibrated(std::span<const float> raw, Survivals& survivals) const;

  DraftSchedule schedule_;
  ConfidenceCalibration calibration_;
  StepCost cost_;
  VerifySchedule verify_;
  Survivals fresh_, stale_, raw_fresh_;
  std::unordered_map<RequestId, std::vector<float>> last_;  // raw survivals of the newest drafts
  std::vector<float> raw_;
  int64_t budget_ = 0;
  int skipped_ = 0;
  bool looks_again_ = false;  // verifies all, to see what comes true
};

}  // namespace deepinfer
