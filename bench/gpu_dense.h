// Dense FP8 products of the released dimensions on the GPU, beside its read bandwidth.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/bench_result.h"

namespace deepinfer::bench {

// Products of `rows` rows with each dense weight of a layer, and with the chain of a layer's weights, as graphs over
// random weights of which no cache holds the next one.  read: bytes a second that the GPU can read.
Status bench_gpu_dense(int64_t rows, double read, ResultSink sink);

}  // namespace deepinfer::bench
