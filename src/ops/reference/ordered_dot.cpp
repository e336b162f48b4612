#include "ops/reference/ordered_dot.h"

#include <algorithm>

namespace deepinfer::reference {

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
  for (int64_t first = 0; first < rows_; first += kLanes) {
    const float* w = interleaved_.data() + first * k_;
    float sum[kLanes] = {};
    for (int64_t i = 0; i < k_; ++i) {
      const float xi = x[i];
      for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += xi * w[i * kLanes + lane];
    }
    std::copy_n(sum, std::min(kLanes, rows_ - first), out + first);
  }
}

}  // namespace deepinfer::reference
