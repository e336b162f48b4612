// The decode kernels of a CPU path on weights that lie in each core's first-level cache.
#pragma once

#include "backends/cpu/cpu_ops.h"
#include "base/thread_pool.h"
#include "ops/linear.h"

namespace deepinfer::bench {

// Bytes of weights a second of all threads, one activation row.  The CPU must have the path.
double sample_cache_rate(CpuIsa isa, LinearWeight::Format format, ThreadPool& pool);

}  // namespace deepinfer::bench
