// Device time of work on a stream, by events.
#pragma once

#include <string_view>

#include "backends/cuda/launch/stream.h"
#include "base/function_ref.h"
#include "base/status.h"

namespace deepinfer::cuda {

// Shortest of `repeats` runs after one more, in seconds.  launch puts the work on the stream.
Result<double> best_seconds(Stream stream, int repeats, std::string_view what, FunctionRef<void()> launch);

}  // namespace deepinfer::cuda
