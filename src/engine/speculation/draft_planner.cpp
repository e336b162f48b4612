#include "engine/speculation/draft_planner.h"

#include <algorithm>
#include <numeric>

namespace deepinfer {

bool DraftPlanner::drafts(std::span<const RequestId> requests, std::span<const int> limits, int64_t other_rows) {
  if (schedule_ == DraftSchedule::kAll || schedule_ == DraftSchedule::kCausal || !cost_.known()) return true;
  stale_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto known = last_.find(requests[i]);
    const auto limit = static_cast<size_t>(limits[i]);
    if (known == last_.end()) {
      raw_.assign(limit, 1);  // not drafted yet: the benefit of the doubt
    } else {
      raw_.assign(known->second.begin(), known->second.begin() + std::min(limit, known->second.size()));
    }
    append_calibrated(raw_, stale_);
  }
  budget_ = verify_.lagged_budget(stale_, cost_, static_cast<int64_t>(requests.size()), other_rows);
  if (budget_ > 0) {
    skipped_ = 0;
    return true;
  }
  if (++skipped_ < kSkippedRounds) return false;
  skipped_ = 0;
  looks_again_ = true;
  budget_ = std::accumulate(limits.begin(), limits.end(), int64_t{0});
  return true;
}

void DraftPlanner::append_calibrated(std::span<const float> raw, Survivals& survivals) const {
  calibration_.append_corrected(raw, survivals.values);
  survivals.counts.push_back(static_cast<int64_t>(raw.size()));
}

void DraftPlanner::observe(RequestId request, int64_t judged, int64_t accepted) {
  const auto known = last_.find(request);
  if (known != last_.end()) calibration_.observe(known->second, judged, accepted);
}

void DraftPlanner::choose(std::span<const RequestId> requests, const DraftResult& drafted, std::span<const int> drawn,
                          int64_t other_rows, std::vector<int>& lengths) {
  if (schedule_ == DraftSchedule::kAll || !cost_.known()) {
    lengths.assign(drawn.begin(), drawn.end());
    return;
  }
  fresh_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    raw_fresh_.clear();
    raw_fresh_.append({drafted.confidence.row(static_cast<int64_t>(i)), static_cast<size_t>(drawn[i])});
    append_calibrated(raw_fresh_.values, fresh_);
    last_[requests[i]].assign(raw_fresh_.values.begin(), raw_fresh_.values.end());
  }
  if (schedule_ == DraftSchedule::kCausal) {
    verify_.causal(fresh_, cost_, other_rows, lengths);
  } else {
    if (schedule_ == DraftSchedule::kFresh && !looks_again_)
      budget_ = verify_.fresh_budget(fresh_, cost_, static_cast<int64_t>(requests.size()), other_rows);
    looks_again_ = false;
    verify_.split(fresh_, budget_, lengths);
  }
}

}  // namespace deepinfer
