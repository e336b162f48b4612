#include "machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace deepinfer::cli {

uint64_t machine_memory_bytes(const std::string& root) {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  // Control groups, version 2 and 1; "max" is no number and leaves the limit as it is.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t limit = 0;
    if (std::ifstream(root + file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace deepinfer::cli
