#include "engine/metrics/metric.h"

#include <algorithm>

#include "base/check.h"

namespace deepinfer {

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) {
  DI_CHECK(bounds.size() <= kMostBounds && std::is_sorted(bounds.begin(), bounds.end()), "ascending bounds");
}

void Histogram::observe(double value, int64_t times) {
  const auto place = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  buckets_[static_cast<size_t>(place)].fetch_add(times, std::memory_order_relaxed);
  sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
}

int64_t Histogram::count() const {
  int64_t count = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) count += bucket(i);
  return count;
}

double Histogram::quantile(double q) const {
  const double wanted = q * static_cast<double>(count());
  double below = 0, lower = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    const auto here = static_cast<double>(bucket(i));
    if (here > 0 && below + here >= wanted) return lower + (bounds_[i] - lower) * (wanted - below) / here;
    below += here;
    lower = bounds_[i];
  }
  return bounds_.empty() || below >= wanted ? 0 : bounds_.back();
}

}  // namespace deepinfer
