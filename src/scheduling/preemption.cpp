#include "scheduling/preemption.h"

namespace deepinfer {
namespace {

// Whether a is to go rather than b.
bool goes_before(const Sequence& a, const Sequence& b) {
  if (a.request.priority != b.request.priority) return a.request.priority < b.request.priority;
  if (a.written() != b.written()) return a.written() < b.written();
  return a.order > b.order;
}

}  // namespace

Sequence* choose_victim(const RunningSet& running) {
  const ByRank ranks_before;
  Sequence* first = nullptr;
  const auto find_first = [&](Sequence* s) {
    if (first == nullptr || ranks_before(s, first)) first = s;
  };
  for (Sequence* s : running.prefilling()) find_first(s);
  if (!running.decoding().empty()) find_first(*running.decoding().begin());

  Sequence* victim = nullptr;
  const auto consider = [&](Sequence* s) {
    if (s != first && (victim == nullptr || goes_before(*s, *victim))) victim = s;
  };
  for (Sequence* s : running.prefilling()) consider(s);
  for (Sequence* s : running.decoding()) consider(s);
  return victim;
}

}  // namespace deepinfer
