#include "engine/speculation/draft_planner.h"

#include <algorithm>

namespace deepinfer {

bool DraftPlanner::drafts(std::span<const RequestId> requests, std::span<const int> limits, int64_t other_rows) {
  if (schedule_ != DraftSchedule::kLagged || !cost_.known()) return true;
  stale_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto known = last_.find(requests[i]);
    // A request that has not drafted yet is given the benefit of the doubt.
    int64_t count = 0;
    for (int j = 0; j < limits[i]; ++j) {
      if (known != last_.end() && static_cast<size_t>(j) >= known->second.size()) break;
      stale_.values.push_back(known == last_.end() ? 1 : known->second[static_cast<size_t>(j)]);
      ++count;
    }
    stale_.counts.push_back(count);
  }
  budget_ = verify_.lagged_budget(stale_, cost_, static_cast<int64_t>(requests.size()), other_rows);
  if (budget_ > 0) {
    skipped_ = 0;
    return true;
  }
  if (++skipped_ < kSkippedRounds) return false;
  skipped_ = 0;
  return true;
}

void DraftPlanner::choose(std::span<const RequestId> requests, const DraftResult& drafted, std::span<const int> drawn,
                          int64_t other_rows, std::vector<int>& lengths) {
  if (schedule_ == DraftSchedule::kAll || !cost_.known()) {
    lengths.assign(drawn.begin(), drawn.end());
    return;
  }
  fresh_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t first = fresh_.values.size();
    fresh_.append({drafted.confidence.row(static_cast<int64_t>(i)), static_cast<size_t>(drawn[i])});
    last_[requests[i]].assign(fresh_.values.begin() + static_cast<int64_t>(first), fresh_.values.end());
  }
  if (schedule_ == DraftSchedule::kCausal) {
    verify_.causal(fresh_, cost_, other_rows, lengths);
  } else {
    verify_.split(fresh_, budget_, lengths);
  }
}

}  // namespace deepinfer
