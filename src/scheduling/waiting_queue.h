// WaitingQueue: requests that wait for an admission, by rank and by turn.  Used by the scheduler.
// Costs: O(log n) to add and to remove, in the middle too; an offer looks at the admitted and at kLookahead others.
#pragma once

#include <cstdint>
#include <set>

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
    kNotYet,      // the step belongs to others whose turn comes before it
    kNoMore,      // nor may any other
  };

  void add(Sequence& sequence);     // in state Waiting
  void remove(Sequence& sequence);  // in the queue, in the size class in which it was added
  // Offers the first by rank, then all by turn.  While the first by rank does not fit it may be passed by `most_passes`
  // others; then nobody else is offered.
  void offer(int most_passes, FunctionRef<Answer(Sequence&)> take);

  bool empty() const { return by_rank_.empty(); }
  int64_t size() const { return static_cast<int64_t>(by_rank_.size()); }
  bool contains(const Sequence& sequence) const;

 private:
  std::set<Sequence*, ByRank> by_rank_;
  std::set<Sequence*, ByTurn> by_turn_;
};

}  // namespace deepinfer
