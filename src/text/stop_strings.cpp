#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace deepinfer {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

void StopStrings::feed(std::string_view piece, std::string& out) {
  if (found_ >= 0) return;
  if (stops_.empty()) {
    out += piece;
    return;
  }
  waiting_ += piece;
  size_t best_end = std::string::npos, best_begin = 0;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    const size_t begin = waiting_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end > best_end || (end == best_end && begin >= best_begin)) continue;
    best_end = end;
    best_begin = begin;
    found_ = static_cast<int>(i);
  }
  if (found_ >= 0) {
    out.append(waiting_, 0, best_begin);
    waiting_.clear();
    return;
  }
  // The longest suffix that begins a stop string stays.
  size_t keep = std::min(waiting_.size(), longest_ - 1);
  const auto begins_a_stop = [&](size_t length) {
    const std::string_view suffix = std::string_view(waiting_).substr(waiting_.size() - length);
    return std::any_of(stops_.begin(), stops_.end(), [&](const std::string& stop) { return stop.starts_with(suffix); });
  };
  while (keep > 0 && !begins_a_stop(keep)) --keep;
  out.append(waiting_, 0, waiting_.size() - keep);
  waiting_.erase(0, waiting_.size() - keep);
}

void StopStrings::finish(std::string& out) {
  if (found_ < 0) out += waiting_;
  waiting_.clear();
}

}  // namespace deepinfer
