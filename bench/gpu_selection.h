// The lightning indexer's selection in the released dimensions on the GPU, beside its read bandwidth and matrix peak.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "bench/bench_result.h"

namespace deepinfer::bench {

struct SelectionShape {
  int64_t rows, keys;  // keys that each row looks through
};

// The best 512 keys for each row, a row a sequence, as graphs of steps over other keys each while 8 million of them
// last. read: bytes a second that the GPU can read; peak: floating-point operations a second of BF16 matrices.
Status bench_gpu_selection(std::span<const SelectionShape> shapes, double read, double peak, ResultSink sink);

}  // namespace deepinfer::bench
