// The CPU paths beside the reference operations, on the same random inputs of real and demonstration widths.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "backends/cpu_backends.h"
#include "ops/random_data.h"

namespace deepinfer {

class AgainstReference : public testing::TestWithParam<OpsBackend> {
 protected:
  void SetUp() override {
    ops_ = GetParam().make();
    ASSERT_TRUE(ops_->prepare(test_limits()).ok());
    ASSERT_TRUE(reference_->prepare(test_limits()).ok());
  }
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Ops> reference_ = make_reference_ops();
};

// Activations that try every corner of a quantiser: zeros of both signs, subnormals, ties, huge and tiny groups.
inline Matrix<bf16> hostile_activations(RandomData& random, int64_t rows, int64_t columns) {
  Matrix<bf16> x = random.activations(rows, columns);
  for (bf16& value : x.values()) {
    switch (random.below(12)) {
      case 0:
        value = {0x8000};
        break;  // -0
      case 1:
        value = {static_cast<uint16_t>(random.word() & 0x80FF)};
        break;  // subnormal or nearly
      case 2:
        value = to_bf16(static_cast<float>(random.below(97) - 48) / 8);
        break;  // ties of the small formats
      default:
        break;
    }
  }
  for (int64_t m = 0; m < rows; ++m) {  // whole groups of one scale, from 2^-120 to 2^120
    const int64_t group = random.below(columns / 32) * 32;
    const float scale = std::ldexp(1.0f, static_cast<int>(random.below(241)) - 120);
    for (int64_t c = group; c < group + 32; ++c) x.row(m)[c] = to_bf16(random.normal() * scale);
  }
  return x;
}

template <typename T>
testing::AssertionResult same_bits(std::span<const T> got, std::span<const T> want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " values, not " << want.size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) {
      return testing::AssertionFailure() << "value " << i << " of " << got.size() << " differs";
    }
  }
  return testing::AssertionSuccess();
}

// 1 - 2 xy / (x^2 + y^2), in double; 0 for equal vectors.
inline double scale_free_error(std::span<const bf16> x, std::span<const bf16> y) {
  double xy = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = to_float(x[i]), b = to_float(y[i]);
    xy += a * b;
    squares += a * a + b * b;
  }
  return squares == 0 ? 0 : 1 - 2 * xy / squares;
}

// bf16 results of sums in another order: equal nearly everywhere, and nowhere more than one bf16 step away (or, where
// terms cancel, 10^-6 of the largest value).
inline testing::AssertionResult equal_but_for_order(std::span<const bf16> got, std::span<const bf16> want) {
  size_t different = 0;
  float largest = 0;
  for (const bf16 value : want) largest = std::max(largest, std::abs(to_float(value)));
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    ++different;
    if (std::abs(to_float(got[i]) - to_float(want[i])) >
        std::ldexp(std::abs(to_float(want[i])), -7) + 1e-6f * largest) {
      return testing::AssertionFailure() << "value " << i << ": " << to_float(got[i]) << ", not " << to_float(want[i]);
    }
  }
  if (different * 100 > got.size())
    return testing::AssertionFailure() << different << " of " << got.size() << " differ";
  return testing::AssertionSuccess();
}

}  // namespace deepinfer
