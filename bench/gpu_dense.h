// Dense products of the released dimensions on the GPU, beside what it can read and multiply.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/bench_result.h"

namespace deepinfer::bench {

struct GpuLimits {
  double read = 0;      // bytes a second
  double multiply = 0;  // floating-point operations a second on bf16
};

// Products of `rows` rows with each dense weight of a layer, with the chain of a layer's weights, and with the BF16
// weights around them, as graphs over random weights of which no cache holds the next one.  Up to 32 rows as bytes of
// the weights a second, from 33 on as operations a second.
Status bench_gpu_dense(int64_t rows, const GpuLimits& limits, ResultSink sink);

}  // namespace deepinfer::bench
