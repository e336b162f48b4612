// How many drafts of each sequence a step verifies (specs: dspark.md 3): confidence says how likely a draft survives,
// StepCost what a row costs.  Pure functions.  Under exact-match verification every choice gives the same tokens;
// algorithms A and B are also safe under rejection sampling, where a choice must not depend on the draft it decides
// about.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation/step_cost.h"

namespace deepinfer {

// Survival of the drafts of each sequence, one list after the other: the chance that draft j and all before it are
// accepted; non-increasing within a list.
struct Survivals {
  std::vector<float> values;
  std::vector<int64_t> counts;  // of each sequence, possibly 0

  void clear();
  // Appends a list: running products of sigmoid(logit / temperature).
  void append(std::span<const float> confidence_logits, float temperature = 1);
};

class VerifySchedule {
 public:
  // Algorithm A: extends the most likely draft first while tokens per second grow; stops at the first that does not
  // pay, so that no decision looks at a later draft.  lengths: [sequences].  other_rows: prefill rows of the step.
  void causal(const Survivals& fresh, const StepCost& cost, int64_t other_rows, std::vector<int>& lengths);

  // Algorithm B: the number of drafts from survivals of earlier rounds (any maximum, no early stop), and its split over
  // the fresh ones: the most likely first, ties by draft, then by sequence.
  int64_t lagged_budget(const Survivals& stale, const StepCost& cost, int64_t sequences, int64_t other_rows);
  // The same from the drafts themselves, which have been drawn in any case.
  int64_t fresh_budget(const Survivals& fresh, const StepCost& cost, int64_t sequences, int64_t other_rows);
  void split(const Survivals& fresh, int64_t budget, std::vector<int>& lengths);

 private:
  struct Entry {
    float survival;
    int32_t draft;
    int32_t sequence;
  };
  void sort_entries(const Survivals& survivals);
  // Of the entries, those before which tokens per second are best; `best`: without any.
  int64_t best_budget(const StepCost& cost, int64_t sequences, int64_t other_rows, double best) const;

  std::vector<Entry> entries_;
};

}  // namespace deepinfer
