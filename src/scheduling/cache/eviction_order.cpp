#include "scheduling/cache/eviction_order.h"

#include <string>

#include "base/check.h"

namespace deepinfer {

EvictionOrder::EvictionOrder(int64_t ids) : place_(static_cast<size_t>(ids), -1) {
  heap_.reserve(static_cast<size_t>(ids));
}

void EvictionOrder::set(int32_t id, EvictionRank rank) {
  size_t place = heap_.size();
  if (contains(id)) {
    place = static_cast<size_t>(place_[static_cast<size_t>(id)]);
  } else {
    heap_.emplace_back();
  }
  // One of the two moves; the other finds the entry where it belongs.
  move_up(place, {rank, id});
  move_down(static_cast<size_t>(place_[static_cast<size_t>(id)]), {rank, id});
}

void EvictionOrder::remove(int32_t id) {
  DI_CHECK(contains(id), std::to_string(id));
  const size_t place = static_cast<size_t>(place_[static_cast<size_t>(id)]);
  place_[static_cast<size_t>(id)] = -1;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (last.id == id) return;
  move_up(place, last);
  move_down(static_cast<size_t>(place_[static_cast<size_t>(last.id)]), last);
}

void EvictionOrder::put(size_t place, const Entry& entry) {
  heap_[place] = entry;
  place_[static_cast<size_t>(entry.id)] = static_cast<int32_t>(place);
}

void EvictionOrder::move_up(size_t place, const Entry& entry) {
  while (place > 0 && entry.rank < heap_[(place - 1) / 2].rank) {
    put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  put(place, entry);
}

void EvictionOrder::move_down(size_t place, const Entry& entry) {
  for (size_t child; (child = 2 * place + 1) < heap_.size(); place = child) {
    if (child + 1 < heap_.size() && heap_[child + 1].rank < heap_[child].rank) ++child;
    if (!(heap_[child].rank < entry.rank)) break;
    put(place, heap_[child]);
  }
  put(place, entry);
}

void EvictionOrder::check_integrity() const {
  for (size_t i = 0; i < place_.size(); ++i) check_id(static_cast<int32_t>(i));
}

// Every id with a place is there, and everything that is there has its place: so there are as many of both.
void EvictionOrder::check_id(int32_t id) const {
  const size_t i = static_cast<size_t>(id);
  DI_CHECK(heap_.size() <= place_.size(), std::to_string(heap_.size()) + " entries");
  if (const int32_t place = place_[i]; place != -1) {
    DI_CHECK(place >= 0 && static_cast<size_t>(place) < heap_.size() && heap_[static_cast<size_t>(place)].id == id,
             "the place of id " + std::to_string(id));
  }
  if (i >= heap_.size()) return;
  const Entry& entry = heap_[i];
  DI_CHECK(
      entry.id >= 0 && static_cast<size_t>(entry.id) < place_.size() && place_[static_cast<size_t>(entry.id)] == id,
      "the id at place " + std::to_string(i));
  DI_CHECK(i == 0 || !(entry.rank < heap_[(i - 1) / 2].rank),
           "id " + std::to_string(entry.id) + " goes before its parent");
}

}  // namespace deepinfer
