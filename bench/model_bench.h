// Benchmarks of whole layers and of a whole model on the CPU.  `deepinfer bench model` is their only caller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/bench_result.h"
#include "models/deepseek_v41/config.h"
#include "ops/ops.h"

namespace deepinfer::bench {

struct SyntheticBenchOptions {
  deepseek_v41::Config config;  // whose dimensions are used
  int layers = 4;
  uint64_t memory_bytes = 0;                   // most memory for weights and for the buffer read between two uses
  int threads = 0;                             // of the backend; 0: one per physical core
  std::vector<int64_t> prefill = {512, 2048};  // prompt lengths
  int64_t prefill_chunk = 2048;                // most rows of a step
  int samples = 9;                             // of decode; prefill takes a third of them, at least 3
  bool profile = false;                        // also a result for every operation
};

// Decode at batch 1 and prefill on generated layers.  Between two decode steps at least four times the last-level cache
// is read from elsewhere, which is also the sample of the read limit.  Medians.
// kResourceExhausted: memory_bytes is too small for one layer's chosen experts.
Status bench_synthetic_model(const SyntheticBenchOptions& options, Ops& backend, ResultSink sink);

struct ModelBenchOptions {
  std::filesystem::path program;  // the executable: its start is part of what is measured
  std::filesystem::path folder;
  int threads = 0;
  int samples = 9;
};

// A whole model through the program, as a user runs it: process start to first byte, tokens/s with and without drafts,
// peak resident memory.  Medians.
Status bench_model(const ModelBenchOptions& options, ResultSink sink);

}  // namespace deepinfer::bench
