#include "engine/speculation/verify_schedule.h"

#include <algorithm>
#include <cmath>

namespace deepinfer {
namespace {

// Below this a draft is never worth a row.
constexpr float kLeastSurvival = 1e-6F;

double rate(double tokens, Time time) {
  return tokens / static_cast<double>(std::max<int64_t>(1, time.count()));
}

}  // namespace

void Survivals::clear() {
  values.clear();
  counts.clear();
}

void Survivals::append(std::span<const float> confidence_logits, float temperature) {
  float survival = 1;
  for (const float logit : confidence_logits) {
    survival *= 1 / (1 + std::exp(-logit / temperature));
    values.push_back(survival);
  }
  counts.push_back(static_cast<int64_t>(confidence_logits.size()));
}

void VerifySchedule::sort_entries(const Survivals& survivals) {
  entries_.clear();
  size_t next = 0;
  for (size_t sequence = 0; sequence < survivals.counts.size(); ++sequence) {
    for (int64_t draft = 0; draft < survivals.counts[sequence]; ++draft) {
      const float survival = survivals.values[next++];
      if (survival >= kLeastSurvival)
        entries_.push_back({survival, static_cast<int32_t>(draft), static_cast<int32_t>(sequence)});
    }
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    if (a.survival != b.survival) return a.survival > b.survival;
    if (a.draft != b.draft) return a.draft < b.draft;
    return a.sequence < b.sequence;
  });
}

void VerifySchedule::causal(const Survivals& fresh, const StepCost& cost, int64_t other_rows,
                            std::vector<int>& lengths) {
  const auto sequences = static_cast<int64_t>(fresh.counts.size());
  lengths.assign(static_cast<size_t>(sequences), 0);
  sort_entries(fresh);
  const Time draft_time = cost.draft(sequences);
  double tokens = static_cast<double>(sequences);
  int64_t rows = sequences + other_rows;
  double best = rate(tokens, draft_time + cost.verify(rows));
  for (const Entry& entry : entries_) {
    tokens += entry.survival;
    ++rows;
    const double next = rate(tokens, draft_time + cost.verify(rows));
    if (next <= best) return;
    best = next;
    lengths[static_cast<size_t>(entry.sequence)] = entry.draft + 1;
  }
}

int64_t VerifySchedule::lagged_budget(const Survivals& stale, const StepCost& cost, int64_t sequences,
                                      int64_t other_rows) {
  sort_entries(stale);
  // Without drafts nothing is drafted either.
  return best_budget(cost, sequences, other_rows,
                     rate(static_cast<double>(sequences), cost.verify(sequences + other_rows)));
}

int64_t VerifySchedule::fresh_budget(const Survivals& fresh, const StepCost& cost, int64_t sequences,
                                     int64_t other_rows) {
  sort_entries(fresh);
  return best_budget(cost, sequences, other_rows,
                     rate(static_cast<double>(sequences), cost.draft(sequences) + cost.verify(sequences + other_rows)));
}

int64_t VerifySchedule::best_budget(const StepCost& cost, int64_t sequences, int64_t other_rows, double best) const {
  const Time draft_time = cost.draft(sequences);
  double tokens = static_cast<double>(sequences);
  int64_t rows = sequences + other_rows;
  int64_t budget = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    tokens += entries_[i].survival;
    ++rows;
    const double next = rate(tokens, draft_time + cost.verify(rows));
    if (next <= best) continue;
    best = next;
    budget = static_cast<int64_t>(i) + 1;
  }
  return budget;
}

void VerifySchedule::split(const Survivals& fresh, int64_t budget, std::vector<int>& lengths) {
  lengths.assign(fresh.counts.size(), 0);
  sort_entries(fresh);
  const auto taken = std::min<size_t>(static_cast<size_t>(budget), entries_.size());
  // Survival falls within a sequence and ties go to the earlier draft: what is taken of a sequence is a prefix.
  for (size_t i = 0; i < taken; ++i) ++lengths[static_cast<size_t>(entries_[i].sequence)];
}

}  // namespace deepinfer
