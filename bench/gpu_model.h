// The whole network in the released dimensions on a GPU, with weights made there.  `deepinfer bench gpu-model` is the
// only caller.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "bench/bench_result.h"
#include "models/deepseek_v41/config.h"
#include "ops/ops.h"

namespace deepinfer::bench {

struct GpuModelOptions {
  deepseek_v41::Config config;            // whose dimensions are used, without Engram, draft and picture encoder
  int expert_layers = 8;                  // layers that have experts of their own
  std::vector<int64_t> batch;             // decode: sequences of a step, one row each
  std::vector<int64_t> context = {4096};  // and tokens that each of them has
  std::vector<int64_t> prefill;           // prompt lengths
  int64_t chunk = 8192;                   // most rows of a prefill step
  int samples = 9;
  bool profile = false;  // also the time of every operation
  // Of the GPU: bytes a second that it reads, and floating-point operations a second of its BF16 matrices.
  double read = 0, peak = 0;
};

// Steps as the engine makes them: embedding to logits, and for decode the greedy choice, from the call to its return.
// Medians.  A decode step stands beside its bytes (weights, distinct experts, records that are read) by `read`, a
// prompt beside its operations by `peak`.  Batches whose caches do not fit give a result that says so.
Status bench_gpu_model(const GpuModelOptions& options, Ops& backend, ResultSink sink);

}  // namespace deepinfer::bench
