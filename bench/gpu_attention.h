// Sparse attention of the released dimensions on the GPU, beside its matrix peak.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "bench/bench_result.h"

namespace deepinfer::bench {

// Steps of so many rows, at most 256, of as many sequences: 128 window rows and 512 compressed ones each, as graphs of
// steps that read other records each.  peak: floating-point operations a second of BF16 matrices; read: bytes a second.
Status bench_gpu_attention(std::span<const int64_t> rows, double peak, double read, ResultSink sink);

}  // namespace deepinfer::bench
