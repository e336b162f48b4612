// RunningSet: the sequences that prefill, by turn and by rank, and those that decode, by rank.  Used by the scheduler.
// Costs: O(log n) a change.
#pragma once

#include <cstdint>
#include <set>

#include "scheduling/sequence.h"

namespace deepinfer {

class RunningSet {
 public:
  using TurnOrder = std::set<Sequence*, ByTurn>;
  using RankOrder = std::set<Sequence*, ByRank>;

  void add(Sequence& sequence);     // in state Prefilling or Decoding
  void remove(Sequence& sequence);  // still in the state and the size class in which it was added

  // By turn: who gets rows of a step first.
  const TurnOrder& prefilling() const { return prefilling_; }
  // The first by rank of those that prefill; null: there is none.
  Sequence* oldest_prefilling() const { return prefilling_by_rank_.empty() ? nullptr : *prefilling_by_rank_.begin(); }
  const RankOrder& decoding() const { return decoding_; }
  int64_t size() const { return static_cast<int64_t>(prefilling_.size() + decoding_.size()); }
  bool empty() const { return prefilling_.empty() && decoding_.empty(); }
  bool contains(const Sequence& sequence) const;

 private:
  TurnOrder prefilling_;
  RankOrder prefilling_by_rank_, decoding_;
};

}  // namespace deepinfer
