#include "scheduling/running_set.h"

#include "base/check.h"

namespace deepinfer {

void RunningSet::add(Sequence& sequence) {
  bool added = false;
  if (std::holds_alternative<Prefilling>(sequence.state)) {
    added = prefilling_.insert(&sequence).second && prefilling_by_rank_.insert(&sequence).second;
  } else {
    added = decoding_.insert(&sequence).second;
  }
  DI_CHECK(added, "a sequence runs once");
}

void RunningSet::remove(Sequence& sequence) {
  bool removed = false;
  if (std::holds_alternative<Prefilling>(sequence.state)) {
    removed = prefilling_.erase(&sequence) == 1 && prefilling_by_rank_.erase(&sequence) == 1;
  } else {
    removed = decoding_.erase(&sequence) == 1;
  }
  DI_CHECK(removed, "only a running sequence can be removed");
}

bool RunningSet::contains(const Sequence& sequence) const {
  auto* key = const_cast<Sequence*>(&sequence);
  if (std::holds_alternative<Prefilling>(sequence.state))
    return prefilling_.contains(key) && prefilling_by_rank_.contains(key);
  return std::holds_alternative<Decoding>(sequence.state) && decoding_.contains(key);
}

}  // namespace deepinfer
