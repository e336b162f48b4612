// How much memory this process may use: the machine's, or what its container grants.
#pragma once

#include <cstdint>
#include <string>

namespace deepinfer::cli {

// root: prefix of /sys, "" but in tests.
uint64_t machine_memory_bytes(const std::string& root = "");

}  // namespace deepinfer::cli
