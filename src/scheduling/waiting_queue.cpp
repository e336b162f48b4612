#include "scheduling/waiting_queue.h"

#include "base/check.h"

namespace deepinfer {

void WaitingQueue::add(Sequence& sequence) {
  DI_CHECK(std::holds_alternative<Waiting>(sequence.state), "a queued sequence waits");
  DI_CHECK(sequences_.insert(&sequence).second, "a sequence is queued once");
}

void WaitingQueue::remove(Sequence& sequence) {
  DI_CHECK(sequences_.erase(&sequence) == 1, "only a queued sequence can be removed");
}

void WaitingQueue::offer(int most_passes, FunctionRef<Answer(Sequence&)> take) {
  passed_.clear();
  for (auto next = sequences_.begin(); next != sequences_.end();) {
    Sequence& sequence = **next;
    switch (take(sequence)) {
      case Answer::kNoMore:
        return;
      case Answer::kTaken: {
        next = sequences_.erase(next);
        bool enough = false;
        for (Waiting* passed : passed_) enough |= ++passed->passes >= most_passes;
        if (enough) return;
        break;
      }
      case Answer::kDoesNotFit: {
        Waiting& waiting = std::get<Waiting>(sequence.state);
        if (waiting.passes >= most_passes) return;
        passed_.push_back(&waiting);
        if (passed_.size() == kLookahead) return;
        ++next;
        break;
      }
    }
  }
}

bool WaitingQueue::contains(const Sequence& sequence) const {
  return sequences_.contains(const_cast<Sequence*>(&sequence));
}

}  // namespace deepinfer
