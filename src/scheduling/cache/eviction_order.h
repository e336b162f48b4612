// EvictionOrder: things with a rank, the lowest first.  A binary heap that knows where each of them is, so that a rank
// can change.  The prefix index keeps its snapshots in it; ids are those of their nodes. Memory for `ids` of them is
// allocated by the constructor.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace deepinfer {

struct EvictionRank {
  double priority = 0;
  uint64_t use = 0;  // number of the last use; decides between equal priorities: the older goes first
  friend auto operator<=>(const EvictionRank&, const EvictionRank&) = default;
};

class EvictionOrder {
 public:
  explicit EvictionOrder(int64_t ids);

  bool empty() const { return heap_.empty(); }
  int64_t size() const { return static_cast<int64_t>(heap_.size()); }
  bool contains(int32_t id) const { return place_[static_cast<size_t>(id)] >= 0; }
  // The id with the lowest rank; not when empty.
  int32_t first() const { return heap_.front().id; }
  EvictionRank first_rank() const { return heap_.front().rank; }

  // Gives an id a rank, whether it had one or not.  O(log size).
  void set(int32_t id, EvictionRank rank);
  // O(log size).
  void remove(int32_t id);

  // Aborts unless no child goes before its parent and all places are right.
  void check_integrity() const;
  // The part of it that is about one id and the place of the same number.  O(1).
  void check_id(int32_t id) const;

 private:
  friend struct CacheFaults;  // of tests
  struct Entry {
    EvictionRank rank;
    int32_t id = 0;
  };
  void put(size_t place, const Entry& entry);
  void move_up(size_t place, const Entry& entry);
  void move_down(size_t place, const Entry& entry);

  std::vector<Entry> heap_;
  std::vector<int32_t> place_;  // [ids], in heap_; -1: not there
};

}  // namespace deepinfer
