// The median of a benchmark's samples.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace deepinfer::bench {

inline double median(std::vector<double> samples) {
  DI_CHECK(!samples.empty(), "a median needs a sample");
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace deepinfer::bench
