#include "engine/speculation/step_cost.h"

#include <algorithm>
#include <utility>

namespace deepinfer {
namespace {

std::vector<StepCost::Point> made_monotone(std::vector<StepCost::Point> points) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
  for (size_t i = 1; i < points.size(); ++i) points[i].time = std::max(points[i].time, points[i - 1].time);
  return points;
}

}  // namespace

StepCost::StepCost(std::vector<Point> verify, std::vector<Point> draft)
    : verify_(made_monotone(std::move(verify))), draft_(made_monotone(std::move(draft))) {}

Time StepCost::at(const std::vector<Point>& points, int64_t size) {
  if (points.empty() || size <= 0) return Time{0};
  const auto above = std::lower_bound(points.begin(), points.end(), size,
                                      [](const Point& point, int64_t wanted) { return point.size < wanted; });
  if (above == points.begin() || points.size() == 1) return points.front().time;
  const Point& b = above == points.end() ? points.back() : *above;
  const Point& a = above == points.end() ? points[points.size() - 2] : *(above - 1);
  const double slope = static_cast<double>((b.time - a.time).count()) / static_cast<double>(b.size - a.size);
  return Time(a.time.count() + static_cast<int64_t>(slope * static_cast<double>(size - a.size)));
}

}  // namespace deepinfer
