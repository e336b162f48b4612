#include "ops/reference/ordered_dot.h"

#include <algorithm>
#include <cstring>

namespace deepinfer::reference {
namespace {

// Four sums of neighbouring rows.  Written out because compilers prefer to vectorise along k here, which costs
// shuffles.
typedef float Four __attribute__((vector_size(16)));

Four load(const float* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

}  // namespace

void OrderedDot::resize(int64_t rows, int64_t k) {
  rows_ = rows;
  k_ = k;
  interleaved_.assign(static_cast<size_t>((rows + kLanes - 1) / kLanes * kLanes * k), 0.0f);
}

void OrderedDot::set_row(int64_t row, const float* values) {
  float* to = interleaved_.data() + row / kLanes * kLanes * k_ + row % kLanes;
  for (int64_t i = 0; i < k_; ++i) to[i * kLanes] = values[i];
}

void OrderedDot::multiply(const float* x, float* out) const {
  static_assert(kLanes == 16);
  for (int64_t first = 0; first < rows_; first += kLanes) {
    const float* w = interleaved_.data() + first * k_;
    Four a{}, b{}, c{}, d{};
    for (int64_t i = 0; i < k_; ++i, w += kLanes) {
      const Four xi = {x[i], x[i], x[i], x[i]};
      a += xi * load(w);
      b += xi * load(w + 4);
      c += xi * load(w + 8);
      d += xi * load(w + 12);
    }
    const Four sums[] = {a, b, c, d};
    std::memcpy(out + first, sums, static_cast<size_t>(std::min(kLanes, rows_ - first)) * sizeof(float));
  }
}

}  // namespace deepinfer::reference
