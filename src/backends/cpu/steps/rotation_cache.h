// The cosines and sines of a step's rows.  A step rotates the same positions by the same two or three frequency tables
// in every layer, and an accurate sine costs far more than the rotation.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/rope.h"

namespace deepinfer::cpu {

// Per channel: cos = (c0, c0, c1, c1, ...), sin = (-s0, s0, -s1, s1, ...), as StepKernels::rope wants them.
struct Rotation {
  const float* cos;
  const float* sin;
  const float* inverse_sin;
};

class RotationCache {
 public:
  static constexpr int kMostPairs = 256;
  using Scratch = std::array<float, 6 * kMostPairs>;

  void prepare(int64_t rows);

  // The slot of a table; called outside parallel regions.  Frequencies are compared by value.
  int find_table(const RopeTable& table);

  // Of position, for row `row` of the step; two threads must not ask for one row at once.  Rows that have no place are
  // computed into scratch.
  Rotation at(int slot, int64_t row, int64_t position, Scratch& scratch);
  // Without the cache.
  Rotation compute(int slot, int64_t position, Scratch& scratch) const;

 private:
  static constexpr int kTables = 3;
  static constexpr int kCachedPairs = 32;

  struct Table {
    int pairs = 0;
    std::array<float, kMostPairs> frequencies{};
    std::vector<int64_t> position;  // [rows], -1: empty
    std::vector<float> values;      // [rows][6 * kCachedPairs]
  };

  static Rotation fill(const Table& table, int64_t position, float* values);

  std::array<Table, kTables> tables_;
  int next_ = 0;
};

}  // namespace deepinfer::cpu
