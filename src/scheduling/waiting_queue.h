// WaitingQueue: requests that wait for an admission, by rank.  Used by the scheduler.
// Costs: O(log n) to add and to remove, in the middle too; an offer looks at the admitted and at kLookahead others.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/function_ref.h"
#include "scheduling/sequence.h"

namespace deepinfer {

class WaitingQueue {
 public:
  // So many requests that do not fit are looked past in a step.
  static constexpr int kLookahead = 8;

  enum class Answer {
    kTaken,       // it is Waiting no longer
    kDoesNotFit,  // a smaller one may
    kNoMore,      // nor may any other
  };

  void add(Sequence& sequence);     // in state Waiting
  void remove(Sequence& sequence);  // in the queue
  // Offers requests by rank.  One that does not fit may be passed by `most_passes` others over its time in the queue;
  // then nobody behind it is offered.
  void offer(int most_passes, FunctionRef<Answer(Sequence&)> take);

  bool empty() const { return sequences_.empty(); }
  int64_t size() const { return static_cast<int64_t>(sequences_.size()); }
  bool contains(const Sequence& sequence) const;

 private:
  std::set<Sequence*, ByRank> sequences_;
  std::vector<Waiting*> passed_;  // of the offer that is being made
};

}  // namespace deepinfer
