// Steps without a matrix product of the released dimensions on the GPU: the residual stream's sites, norms, roundings,
// rotations, records.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/bench_result.h"

namespace deepinfer::bench {

// Each step over `rows` rows as a node of a graph, one behind the other, in microseconds beside its bytes over `read`
// (bytes a second that the GPU can read).  Weights come from memory, few rows from the second-level cache, as in a
// step.
Status bench_gpu_rows(int64_t rows, double read, ResultSink sink);

}  // namespace deepinfer::bench
