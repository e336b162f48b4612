// Flight: what the scheduler remembers of a plan until it is answered.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduling/cache/cache_coordinator.h"
#include "scheduling/sequence.h"

namespace deepinfer {

struct Flight {
  struct Rows {
    Sequence* sequence = nullptr;
    int64_t assumed = 0;  // most tokens that they decide; 0: a chunk that is not the last
  };
  struct Save {
    Sequence* sequence = nullptr;
    SnapshotPlace place;
    bool published = false;  // already; the place is held until it is written
  };

  uint64_t number = 0;
  int64_t prefill_rows = 0;
  int64_t decode_rows = 0;
  std::vector<Rows> rows;               // in the order of the results
  std::vector<Save> saves;              // to be published
  std::vector<SnapshotPlace> restores;  // held while they are read
  std::vector<Sequence*> retirements;   // whose blocks and state slot go back

  void clear();
};

// The plans that are out, oldest first.  Their memory is reused.
class Flights {
 public:
  explicit Flights(int most) : ring_(static_cast<size_t>(most)) {}

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == static_cast<int64_t>(ring_.size()); }
  int64_t size() const { return count_; }
  // The place of the next one; it is in flight after launch().
  Flight& next() { return at(count_); }
  void launch() { ++count_; }
  Flight& oldest() { return at(0); }
  void land() {
    first_ = (first_ + 1) % static_cast<int64_t>(ring_.size());
    --count_;
  }
  const Flight& operator[](int64_t i) const { return ring_[index(i)]; }

 private:
  size_t index(int64_t i) const { return static_cast<size_t>((first_ + i) % static_cast<int64_t>(ring_.size())); }
  Flight& at(int64_t i) { return ring_[index(i)]; }

  std::vector<Flight> ring_;
  int64_t first_ = 0, count_ = 0;
};

}  // namespace deepinfer
