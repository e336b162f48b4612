// no_memory_for, for Python (ctypes.PyDLL).  A library that is preloaded: its operator new is the process's.
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/allocation_count.h"

// Meanwhile every operator new fails, on every thread.  The caller keeps the interpreter's lock, so no Python code
// runs: how arguments are converted (nanobind) does not bear it.
extern "C" void no_memory_for(int milliseconds) {
  const deepinfer::FailedAllocation failed(0, int64_t{1} << 40);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}
