#include "backends/cpu/steps/rotation_cache.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace deepinfer::cpu {

void RotationCache::prepare(int64_t rows) {
  for (Table& table : tables_) {
    table.pairs = 0;
    table.position.assign(static_cast<size_t>(rows), -1);
    table.values.assign(static_cast<size_t>(rows) * 6 * kCachedPairs, 0.0f);
  }
}

int RotationCache::find_table(const RopeTable& table) {
  DI_CHECK(table.pairs > 0 && table.pairs <= kMostPairs, "a head has 2 to 512 rotated channels");
  for (int slot = 0; slot < kTables; ++slot) {
    const Table& known = tables_[slot];
    if (known.pairs == table.pairs &&
        std::equal(table.frequencies, table.frequencies + table.pairs, known.frequencies.begin())) {
      return slot;
    }
  }
  const int slot = next_;
  next_ = (next_ + 1) % kTables;
  tables_[slot].pairs = table.pairs;
  std::copy_n(table.frequencies, table.pairs, tables_[slot].frequencies.begin());
  std::fill(tables_[slot].position.begin(), tables_[slot].position.end(), -1);
  return slot;
}

// Of the fp32 angle, through double precision: good to half an ulp (and a hair) at any position.
Rotation RotationCache::fill(const Table& table, int64_t position, float* values) {
  float* cos = values;
  float* sin = cos + 2 * table.pairs;
  float* inverse_sin = sin + 2 * table.pairs;
  for (int i = 0; i < table.pairs; ++i) {
    const double angle = static_cast<float>(position) * table.frequencies[i];
    const auto c = static_cast<float>(std::cos(angle));
    const auto s = static_cast<float>(std::sin(angle));
    cos[2 * i] = cos[2 * i + 1] = c;
    sin[2 * i] = inverse_sin[2 * i + 1] = -s;
    sin[2 * i + 1] = inverse_sin[2 * i] = s;
  }
  return {cos, sin, inverse_sin};
}

Rotation RotationCache::at(int slot, int64_t row, int64_t position, Scratch& scratch) {
  Table& table = tables_[slot];
  if (row >= static_cast<int64_t>(table.position.size()) || table.pairs > kCachedPairs) {
    return fill(table, position, scratch.data());
  }
  float* values = table.values.data() + row * 6 * kCachedPairs;
  if (table.position[row] == position) {
    return {values, values + 2 * table.pairs, values + 4 * table.pairs};
  }
  table.position[row] = position;
  return fill(table, position, values);
}

Rotation RotationCache::compute(int slot, int64_t position, Scratch& scratch) const {
  return fill(tables_[slot], position, scratch.data());
}

}  // namespace deepinfer::cpu
