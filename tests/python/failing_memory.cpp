// Calls for Python (ctypes) around FailedAllocation.  A library that is preloaded: its operator new is the process's.
#include <cstdint>
#include <memory>

#include "base/allocation_count.h"

namespace {

std::unique_ptr<deepinfer::FailedAllocation> failed;

}  // namespace

// From now on every operator new fails, on every thread, until memory_is_back().
extern "C" void memory_is_gone() {
  if (!failed) failed.reset(new deepinfer::FailedAllocation(1, int64_t{1} << 40));
}

extern "C" void memory_is_back() {
  failed.reset();
}
