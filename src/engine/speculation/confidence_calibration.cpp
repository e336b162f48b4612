#include "engine/speculation/confidence_calibration.h"

#include <algorithm>

namespace deepinfer {

void ConfidenceCalibration::append_corrected(std::span<const float> raw, std::vector<float>& survivals) const {
  float most = 1;
  for (size_t j = 0; j < raw.size(); ++j) {
    const auto ratio = j < places_.size() ? static_cast<float>(places_[j].kept / places_[j].promised) : 1.0F;
    most = std::min(most, raw[j] * ratio);
    survivals.push_back(most);
  }
}

void ConfidenceCalibration::observe(std::span<const float> raw, int64_t judged, int64_t accepted) {
  constexpr double kForget = 0.95, kForgetUnseen = 0.99;
  const auto count = std::min(static_cast<size_t>(judged), raw.size());
  if (places_.size() < count) places_.resize(count);
  for (size_t j = 0; j < count; ++j) {
    Place& place = places_[j];
    place.promised = kForget * place.promised + raw[j];
    place.kept = kForget * place.kept + (static_cast<int64_t>(j) < accepted ? 1 : 0);
  }
  // What is not verified any more is believed again by and by, so that it gets another chance.
  for (size_t j = count; j < places_.size(); ++j) {
    Place& place = places_[j];
    place.promised = kForgetUnseen * place.promised + (1 - kForgetUnseen) * Place().promised;
    place.kept = kForgetUnseen * place.kept + (1 - kForgetUnseen) * Place().kept;
  }
}

}  // namespace deepinfer
