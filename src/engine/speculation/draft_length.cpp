#include "engine/speculation/draft_length.h"

#include <algorithm>

#include "base/check.h"

namespace deepinfer {

void DraftLength::Mean::add(double sample) {
  ++samples;
  const double weight = std::max(0.1, 1.0 / static_cast<double>(samples));
  value += weight * (sample - value);
}

// Between the two lengths that are measured first a straight line, until a length has been measured itself.
double DraftLength::running(int drafts) const {
  if (running_[static_cast<size_t>(drafts)].samples > 0) return running_[static_cast<size_t>(drafts)].value;
  const double none = running_[0].value, all = running_[static_cast<size_t>(most_)].value;
  return none + (all - none) * drafts / most_;
}

double DraftLength::tokens(int drafts) const {
  double sum = 1;
  for (int i = 0; i < drafts; ++i) sum += survival_[static_cast<size_t>(i)].value;
  return sum;
}

int DraftLength::next(int most) {
  DI_CHECK(most >= 0 && most <= kMost, "a draft block of up to 16 tokens");
  if (most == 0) return 0;
  most_ = std::max(most_, most);
  if (running_[static_cast<size_t>(most_)].samples < kFirstRounds) return most;
  if (running_[0].samples < kFirstRounds) return 0;
  int best = 0;
  double best_rate = 1 / running(0);
  for (int drafts = 1; drafts <= most; ++drafts) {
    const double rate = tokens(drafts) / (drafting_.value + running(drafts));
    if (rate > best_rate) {
      best = drafts;
      best_rate = rate;
    }
  }
  // Texts change: from time to time the other extreme is tried again.
  if (++rounds_ % kLookAgain == 0) return best == 0 ? most : 0;
  return best;
}

void DraftLength::record(int drafts, Time drafting, Time running, int judged, int accepted) {
  // The first of its kind touches memory for the first time: the second replaces it if it was faster.  Later a round
  // that somebody else's work made slow counts as at most twice the mean.
  const auto add_time = [](Mean& mean, Time time) {
    const auto sample = static_cast<double>(time.count());
    if (mean.samples == 1) mean.value = std::min(mean.value, sample);
    mean.add(std::min(sample, mean.samples == 0 ? sample : 2 * mean.value));
  };
  add_time(running_[static_cast<size_t>(drafts)], running);
  if (drafts > 0) add_time(drafting_, drafting);
  for (int i = 0; i < judged; ++i) survival_[static_cast<size_t>(i)].add(i < accepted ? 1 : 0);
}

}  // namespace deepinfer
