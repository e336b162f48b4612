// How much memory can be allocated now.  Asked before weights are read into the host's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace deepinfer {

// Bytes that can be had without swapping: of the machine, or of what its container grants where that is less; caches of
// files count as free.  Empty where the system does not say.  root: prefix of /proc and /sys, "" but in tests.
std::optional<uint64_t> available_memory(const std::string& root = "");

}  // namespace deepinfer
