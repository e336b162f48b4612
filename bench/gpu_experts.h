// Mixture of experts of the released dimensions on the GPU, beside its read bandwidth and its matrix peak.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "bench/bench_result.h"

namespace deepinfer::bench {

struct DecodeStep {
  int64_t rows;
  int choosable = 384;  // experts that the rows of a layer choose from
};

// Steps of few rows, each row with experts of its own choice, as graphs of several layers over random weights of which
// no cache holds the next one.  read: bytes a second that the GPU can read; figures are of the bytes of the experts
// that were chosen and of the shared one.
Status bench_gpu_experts_decode(std::span<const DecodeStep> steps, double read, ResultSink sink);

// Steps of many rows with random experts.  peak: floating-point operations a second of BF16 matrices; figures are of
// the products of the rows' own experts and the shared one.
Status bench_gpu_experts_prefill(std::span<const int64_t> rows, double peak, ResultSink sink);

}  // namespace deepinfer::bench
