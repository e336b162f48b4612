// Counter, Gauge and Histogram: numbers that one thread writes and any thread reads, by atomics only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace deepinfer {

class Counter {
 public:
  void add(int64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

class Gauge {
 public:
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Counts of values by fixed bounds.
class Histogram {
 public:
  static constexpr size_t kMostBounds = 24;

  // bounds: ascending, at most kMostBounds, alive as long as the histogram.
  explicit Histogram(std::span<const double> bounds);

  void observe(double value, int64_t times = 1);

  std::span<const double> bounds() const { return bounds_; }
  // Values at most bounds()[i] and above the bound before; the last, i = bounds().size(): above all.
  int64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  int64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  // The bound below which a share q of the values lies, between bounds by proportion; 0 without values.
  double quantile(double q) const;

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kMostBounds + 1> buckets_{};
  std::atomic<double> sum_{0};
};

}  // namespace deepinfer
