#include "models/weight_placement.h"

#include <fmt/format.h>

namespace deepinfer {

std::string_view to_string(ExpertPlacement placement) {
  return placement == ExpertPlacement::kDevice ? "device" : "host";
}

std::string_view to_string(EngramPlacement placement) {
  switch (placement) {
    case EngramPlacement::kDevice:
      return "device";
    case EngramPlacement::kHost:
      return "host";
    case EngramPlacement::kDisk:
      break;
  }
  return "disk";
}

Result<ExpertPlacement> expert_placement(std::string_view name, std::string_view field) {
  for (const ExpertPlacement placement : {ExpertPlacement::kDevice, ExpertPlacement::kHost})
    if (name == to_string(placement)) return placement;
  return invalid_argument(fmt::format("{} is '{}'; allowed: {}", field, name, kExpertPlacements));
}

Result<EngramPlacement> engram_placement(std::string_view name, std::string_view field) {
  for (const EngramPlacement placement : {EngramPlacement::kDevice, EngramPlacement::kHost, EngramPlacement::kDisk})
    if (name == to_string(placement)) return placement;
  return invalid_argument(fmt::format("{} is '{}'; allowed: {}", field, name, kEngramPlacements));
}

}  // namespace deepinfer
