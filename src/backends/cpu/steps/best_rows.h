// BestRows: the k best (score, index) pairs of a stream, by score descending and index ascending.  The order is total,
// so the result does not depend on the order in which pairs arrive or on how several collections are merged.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>

namespace deepinfer::cpu {

class BestRows {
 public:
  // Room for `capacity` pairs (more than k; twice k sorts seldom) that outlive this object.
  static constexpr int64_t capacity_for(int64_t k) { return 2 * k + 1024; }

  BestRows() = default;
  BestRows(uint64_t* room, int64_t k) : room_(room), k_(k), capacity_(capacity_for(k)) {}

  // A score of -infinity is never kept.  score is no NaN.
  void add(float score, int32_t index) {
    if (!(score >= threshold_)) return;
    const uint64_t key = key_of(score, index);
    if (key <= least_) return;
    if (size_ == capacity_) shrink();
    room_[size_++] = key;
  }
  void add_all(const BestRows& other) {
    for (int64_t i = 0; i < other.size_; ++i) {
      if (size_ == capacity_) shrink();
      room_[size_++] = other.room_[i];
    }
  }
  // Writes the indices in ascending order, then -1 up to `columns` (>= k).  bitmap has a bit for every index, all 0
  // before and after: sorting would cost more than scoring some thousand keys.
  void write(int32_t* out, int64_t columns, uint64_t* bitmap) {
    shrink();
    uint32_t words = 0;
    for (int64_t i = 0; i < size_; ++i) {
      const uint32_t index = ~static_cast<uint32_t>(room_[i]);
      bitmap[index / 64] |= uint64_t{1} << (index % 64);
      words = std::max(words, index / 64 + 1);
    }
    int64_t count = 0;
    for (uint32_t w = 0; w < words; ++w) {
      uint64_t bits = bitmap[w];
      bitmap[w] = 0;
      for (; bits != 0; bits &= bits - 1) out[count++] = static_cast<int32_t>(w * 64 + std::countr_zero(bits));
    }
    std::fill(out + count, out + columns, -1);
  }
  // Scores below it cannot be kept any more; a filter for the caller's loop.
  float threshold() const { return threshold_; }

 private:
  // Larger is better.  -0 counts as +0.
  static uint64_t key_of(float score, int32_t index) {
    const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);
    const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return uint64_t{ordered} << 32 | ~static_cast<uint32_t>(index);
  }

  void shrink() {
    if (size_ <= k_) return;
    if (k_ > 0) {
      std::nth_element(room_, room_ + k_ - 1, room_ + size_, std::greater<>());
      least_ = room_[k_ - 1];
      const auto ordered = static_cast<uint32_t>(least_ >> 32);
      threshold_ = std::bit_cast<float>((ordered & 0x80000000u) != 0 ? ordered & 0x7FFFFFFFu : ~ordered);
    }
    size_ = k_;
  }

  uint64_t* room_ = nullptr;
  int64_t k_ = 0;
  int64_t capacity_ = 0;
  int64_t size_ = 0;
  uint64_t least_ = 0;
  float threshold_ = -std::numeric_limits<float>::max();
};

// What the indexer selects for one query: rows, and blocks of the candidate pool where it is made.
struct RowSelection {
  BestRows rows;
  BestRows blocks;
};

}  // namespace deepinfer::cpu
