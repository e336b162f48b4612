#include "ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace deepinfer {
namespace {

// The channel pair (as a real number) that turns `rotations` times over the original context.
double pair_of_rotations(double rotations, int rope_dim, double theta, double context) {
  return rope_dim * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

}  // namespace

std::vector<float> rope_frequencies(int rope_dim, double theta, const RopeScaling& scaling) {
  DI_CHECK(rope_dim > 0 && rope_dim % 2 == 0, "rotary channels come in pairs");
  const int pairs = rope_dim / 2;
  double low = 0;
  double high = 0;
  if (scaling.factor != 0) {
    const double context = scaling.original_max_position_embeddings;
    low = std::max(std::floor(pair_of_rotations(scaling.beta_fast, rope_dim, theta, context)), 0.0);
    high = std::min(std::ceil(pair_of_rotations(scaling.beta_slow, rope_dim, theta, context)), rope_dim - 1.0);
  }
  std::vector<float> frequencies(pairs);
  for (int i = 0; i < pairs; ++i) {
    // Each value below is rounded to fp32: one ulp of a frequency is 0.06 rad near position 2^20.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope_dim);
    const float period = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    if (scaling.factor == 0) {
      frequencies[i] = 1 / period;
      continue;
    }
    const float width = static_cast<float>(std::max(high - low, 1e-3));
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / width, 0.0f, 1.0f);
    const float keep = 1 - ramp;
    const float stretched = 1 / (static_cast<float>(scaling.factor) * period);
    frequencies[i] = stretched * (1 - keep) + 1 / period * keep;
  }
  return frequencies;
}

}  // namespace deepinfer
