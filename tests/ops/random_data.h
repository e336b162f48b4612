// Random inputs of operations: activations with outliers, zeros and dead rows, and weights in every stored format.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ops/linear.h"
#include "ops/matrix.h"

namespace deepinfer {

// A weight and its bytes.
struct OwnedWeight {
  LinearWeight::Format format;
  int64_t n = 0;
  int64_t k = 0;
  std::vector<uint8_t> data;
  std::vector<uint8_t> scale;

  LinearWeight view() const { return {format, n, k, data.data(), scale.data()}; }
};

class RandomData {
 public:
  explicit RandomData(uint64_t seed) : random_(seed) {}

  uint64_t word() { return random_(); }
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  float normal() { return std::normal_distribution<float>()(random_); }

  Matrix<bf16> activations(int64_t rows, int64_t columns);
  Matrix<bf16> bf16s(int64_t rows, int64_t columns, float mean, float deviation);
  Matrix<float> floats(int64_t rows, int64_t columns, float deviation);
  OwnedWeight weight(LinearWeight::Format format, int64_t n, int64_t k);
  std::vector<int64_t> shuffled(int64_t count);  // 0 .. count - 1

 private:
  std::mt19937_64 random_;
};

}  // namespace deepinfer
