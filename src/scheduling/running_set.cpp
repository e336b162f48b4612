#include "scheduling/running_set.h"

#include "base/check.h"

namespace deepinfer {

bool RunningSet::ByAdmission::operator()(const Sequence* a, const Sequence* b) const {
  if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
  return std::get<Prefilling>(a->state).home.admission < std::get<Prefilling>(b->state).home.admission;
}

void RunningSet::add(Sequence& sequence) {
  const bool added = std::holds_alternative<Prefilling>(sequence.state) ? prefilling_.insert(&sequence).second
                                                                        : decoding_.insert(&sequence).second;
  DI_CHECK(added, "a sequence runs once");
}

void RunningSet::remove(Sequence& sequence) {
  const size_t removed =
      std::holds_alternative<Prefilling>(sequence.state) ? prefilling_.erase(&sequence) : decoding_.erase(&sequence);
  DI_CHECK(removed == 1, "only a running sequence can be removed");
}

bool RunningSet::contains(const Sequence& sequence) const {
  auto* key = const_cast<Sequence*>(&sequence);
  if (std::holds_alternative<Prefilling>(sequence.state)) return prefilling_.contains(key);
  return std::holds_alternative<Decoding>(sequence.state) && decoding_.contains(key);
}

}  // namespace deepinfer
