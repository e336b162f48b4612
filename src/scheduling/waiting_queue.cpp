#include "scheduling/waiting_queue.h"

#include "base/check.h"

namespace deepinfer {

void WaitingQueue::add(Sequence& sequence) {
  DI_CHECK(std::holds_alternative<Waiting>(sequence.state), "a queued sequence waits");
  bool is_new = by_rank_.insert(&sequence).second;
  try {
    is_new = by_turn_.insert(&sequence).second && is_new;
  } catch (...) {
    by_rank_.erase(&sequence);
    throw;
  }
  DI_CHECK(is_new, "a sequence is queued once");
}

void WaitingQueue::remove(Sequence& sequence) {
  DI_CHECK(by_rank_.erase(&sequence) == 1 && by_turn_.erase(&sequence) == 1, "only a queued sequence can be removed");
}

void WaitingQueue::offer(int most_passes, FunctionRef<Answer(Sequence&)> take) {
  Waiting* passed = nullptr;  // the first by rank, if it does not fit
  while (!empty()) {
    Sequence& first = **by_rank_.begin();
    const Answer answer = take(first);
    if (answer == Answer::kTaken) {
      remove(first);
      continue;
    }
    if (answer == Answer::kNoMore) return;
    if (answer == Answer::kDoesNotFit) passed = &std::get<Waiting>(first.state);
    break;
  }
  if (passed != nullptr && passed->passes >= most_passes) return;
  int looked_past = 0;
  for (auto next = by_turn_.begin(); next != by_turn_.end();) {
    Sequence& sequence = **next++;
    if (passed != nullptr && &sequence == *by_rank_.begin()) continue;
    switch (take(sequence)) {
      case Answer::kTaken:
        remove(sequence);
        if (passed != nullptr && ++passed->passes >= most_passes) return;
        break;
      case Answer::kDoesNotFit:
        if (++looked_past == kLookahead) return;
        break;
      case Answer::kNotYet:  // whoever is behind it has as many rows before it
      case Answer::kNoMore:
        return;
    }
  }
}

bool WaitingQueue::contains(const Sequence& sequence) const {
  auto* key = const_cast<Sequence*>(&sequence);
  return by_rank_.contains(key) && by_turn_.contains(key);
}

}  // namespace deepinfer
