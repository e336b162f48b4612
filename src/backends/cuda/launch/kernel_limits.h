// What a kernel may be launched with.  For launch() and for grids that fill the GPU once.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace deepinfer::cuda {

// A kernel that takes more than 48 KB of shared memory, with what it names itself, has to say so to the driver before;
// the most that it ever took counts.
Status allow_shared(const void* kernel, int64_t bytes, std::string_view name);

// Whether the kernels of this build wait for the kernels before them (device/launch_dependency.cuh) on this GPU: they
// do where they were compiled for SM90 or later.
bool kernels_may_be_early();

// Of the current device.
Result<int> multiprocessor_count();

}  // namespace deepinfer::cuda
