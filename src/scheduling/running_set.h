// RunningSet: the sequences that prefill, in the order in which chunks get rows, and those that decode, by rank.  Used
// by the scheduler.  Costs: O(log n) a change.
#pragma once

#include <cstdint>
#include <set>

#include "scheduling/sequence.h"

namespace deepinfer {

class RunningSet {
 public:
  // The higher priority, then the earlier admission.
  struct ByAdmission {
    bool operator()(const Sequence* a, const Sequence* b) const;
  };
  using PrefillingOrder = std::set<Sequence*, ByAdmission>;
  using DecodingOrder = std::set<Sequence*, ByRank>;

  void add(Sequence& sequence);     // in state Prefilling or Decoding
  void remove(Sequence& sequence);  // still in the state in which it was added

  const PrefillingOrder& prefilling() const { return prefilling_; }
  const DecodingOrder& decoding() const { return decoding_; }
  int64_t size() const { return static_cast<int64_t>(prefilling_.size() + decoding_.size()); }
  bool empty() const { return prefilling_.empty() && decoding_.empty(); }
  bool contains(const Sequence& sequence) const;

 private:
  PrefillingOrder prefilling_;
  DecodingOrder decoding_;
};

}  // namespace deepinfer
