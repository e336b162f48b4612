#include "ops/random_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace deepinfer {

Matrix<bf16> RandomData::activations(int64_t rows, int64_t columns) {
  Matrix<bf16> x(rows, columns);
  for (int64_t m = 0; m < rows; ++m) {
    if (m % 11 == 10) continue;  // a dead row
    const float size = std::ldexp(1.0f, static_cast<int>(below(7)) - 3);
    for (int64_t i = 0; i < columns; ++i) {
      const bool outlier = below(100) == 0;
      const bool zero = below(50) == 0;
      x.row(m)[i] = to_bf16(zero ? -0.0f : normal() * size * (outlier ? 20.0f : 1.0f));
    }
  }
  return x;
}

Matrix<bf16> RandomData::bf16s(int64_t rows, int64_t columns, float mean, float deviation) {
  Matrix<bf16> x(rows, columns);
  for (bf16& value : x.values()) value = to_bf16(mean + normal() * deviation);
  return x;
}

Matrix<float> RandomData::floats(int64_t rows, int64_t columns, float deviation) {
  Matrix<float> x(rows, columns);
  for (float& value : x.values()) value = normal() * deviation;
  return x;
}

OwnedWeight RandomData::weight(LinearWeight::Format format, int64_t n, int64_t k) {
  OwnedWeight made{format, n, k, {}, {}};
  switch (format) {
    case LinearWeight::Format::kFp8:
      made.data.resize(static_cast<size_t>(n * k));
      made.scale.resize(static_cast<size_t>((n + 31) / 32 * ((k + 31) / 32)));
      for (uint8_t& code : made.data) {
        do {
          code = static_cast<uint8_t>(word());
        } while ((code & 0x7F) == 0x7F);  // NaN
      }
      for (uint8_t& code : made.scale) code = static_cast<uint8_t>(127 - 14 + below(4));
      break;
    case LinearWeight::Format::kFp4:
      made.data.resize(static_cast<size_t>(n * k / 2));
      made.scale.resize(static_cast<size_t>(n * k / 32));
      for (uint8_t& code : made.data) code = static_cast<uint8_t>(word());
      for (uint8_t& code : made.scale) code = static_cast<uint8_t>(127 - 8 + below(4));
      break;
    case LinearWeight::Format::kBf16: {
      const Matrix<bf16> values = bf16s(n, k, 0, 0.02f);
      made.data.resize(static_cast<size_t>(2 * n * k));
      std::memcpy(made.data.data(), values.row(0), made.data.size());
      break;
    }
  }
  return made;
}

std::vector<int64_t> RandomData::shuffled(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  return order;
}

}  // namespace deepinfer
