// `deepinfer bench kernels`: matrix products and experts at the released model's dimensions, each beside the limit of
// this machine that binds it: read bandwidth, arithmetic peak, or the slower of the two (roofline).
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/cpu_ops.h"
#include "bench/bench_result.h"

namespace deepinfer::bench {

struct KernelBenchOptions {
  int threads = 0;            // 0: one per physical core
  int samples = 9;            // a median's; kernel and limit are sampled in turn
  uint64_t memory_bytes = 0;  // for weights and for the buffer that the read bandwidth is measured on, together
  std::string only;           // names must contain it
};

// Weights are random codes and rotate, so that no cache holds what a decode case reads next: at least four times the
// last-level cache lies between two uses where memory_bytes allows it (a note says how much it was).
// Unsupported: this CPU lacks the path.  ResourceExhausted: memory_bytes is too small or not to be had.
Status bench_kernels(const KernelBenchOptions& options, CpuIsa isa, ResultSink sink);

}  // namespace deepinfer::bench
