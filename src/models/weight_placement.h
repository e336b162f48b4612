// Where a model's weights lie while it runs, as far as there is a choice.  Never changes an answer.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

// Of routed experts, the draft's too.
enum class ExpertPlacement : uint8_t {
  kDevice,  // in the backend's memory, or mapped where that is the host's
  kHost,    // in Ops::reachable_host_memory(), for a device that has no room: what a step chooses crosses the bus
};
// Of Engram tables.
enum class EngramPlacement : uint8_t {
  kDevice,  // in the memory of a device
  kHost,    // read into Ops::reachable_host_memory() at start
  kDisk,    // mapped: pages of the file come as rows are looked up
};

struct WeightPlacement {
  ExpertPlacement experts = ExpertPlacement::kDevice;
  EngramPlacement engram = EngramPlacement::kDisk;
};

inline constexpr std::string_view kExpertPlacements = "device, host";
inline constexpr std::string_view kEngramPlacements = "device, host, disk";
std::string_view to_string(ExpertPlacement placement);
std::string_view to_string(EngramPlacement placement);
// By name.  field: what the user set; the error has field, value and what is allowed.
Result<ExpertPlacement> expert_placement(std::string_view name, std::string_view field);
Result<EngramPlacement> engram_placement(std::string_view name, std::string_view field);

}  // namespace deepinfer
