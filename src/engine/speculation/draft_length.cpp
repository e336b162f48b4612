#include "engine/speculation/draft_length.h"

#include <algorithm>

#include "base/check.h"

namespace deepinfer {

DraftLength::DraftLength() {
  raw_.values.reserve(kMost);
  raw_.counts.reserve(1);
  survivals_.reserve(kMost);
}

void DraftLength::Mean::add(double sample) {
  ++samples;
  const double weight = std::max(0.1, 1.0 / static_cast<double>(samples));
  value += weight * (sample - value);
}

// The first of its kind touches memory for the first time: the second replaces it if it was faster.  Later a round that
// somebody else's work made slow counts as at most twice the mean.
void DraftLength::Mean::add_time(Time time) {
  const auto sample = static_cast<double>(time.count());
  if (samples == 1) value = std::min(value, sample);
  add(samples == 0 ? sample : std::min(sample, 2 * value));
}

// More rows are never cheaper: what a longer round took is an upper bound.  Between lengths that were measured a
// straight line.
double DraftLength::running(int drafts) const {
  const auto known = [&](int length) { return running_[static_cast<size_t>(length)].samples > 0; };
  const auto measured = [&](int length) { return running_[static_cast<size_t>(length)].value; };
  int above = drafts;
  while (above < most_ && !known(above)) ++above;
  double value = measured(above);
  for (int longer = above; longer <= most_; ++longer) {
    if (known(longer)) value = std::min(value, measured(longer));
  }
  if (above == drafts) return value;
  int below = drafts - 1;
  while (below > 0 && !known(below)) --below;
  const double from = std::min(value, measured(below));
  return from + (value - from) * (drafts - below) / (above - below);
}

// Against rounds that do not draft.
bool DraftLength::pays() const {
  return round_tokens_.value * running(0) > round_time_.value;
}

int DraftLength::next(int most) {
  DI_CHECK(most >= 0 && most <= kMost, "a draft block of up to 64 tokens");
  if (most == 0) return 0;
  most_ = std::max(most_, most);
  if (running_[static_cast<size_t>(most_)].samples < kFirstRounds) return most;
  if (running_[0].samples == 0) return 0;
  // Texts change: from time to time the other way is tried again.
  const bool other = ++rounds_ % kLookAgain == 0;
  looks_again_ = other && !pays();
  return pays() != other ? most : 0;
}

int DraftLength::choose(std::span<const float> confidence) {
  drew_ = true;
  raw_.clear();
  raw_.append(confidence);
  survivals_.clear();
  calibration_.append_corrected(raw_.values, survivals_);
  const auto drawn = static_cast<int>(confidence.size());
  if (looks_again_ || running_[static_cast<size_t>(most_)].samples < kFirstRounds || running_[0].samples == 0)
    return drawn;
  int best = 0;
  double tokens = 1, best_rate = 1 / (drafting_.value + running(0));
  for (int drafts = 1; drafts <= drawn; ++drafts) {
    tokens += survivals_[static_cast<size_t>(drafts - 1)];
    const double rate = tokens / (drafting_.value + running(drafts));
    if (rate > best_rate) {
      best = drafts;
      best_rate = rate;
    }
  }
  return best;
}

void DraftLength::record(int verified, Time drafting, Time running, int judged, int accepted) {
  running_[static_cast<size_t>(verified)].add_time(running);
  if (!drew_) return;
  drew_ = false;
  drafting_.add_time(drafting);
  calibration_.observe(raw_.values, judged, accepted);
  // The end of an answer cuts a round short: it says nothing of what a round brings.
  if (judged < verified) return;
  round_tokens_.add(1 + accepted);
  round_time_.add_time(drafting + running);
}

}  // namespace deepinfer
