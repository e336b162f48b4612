// The sampler on the device, ops/sample.h, to the bit.  One block a row.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/sample.h"

namespace deepinfer::cuda {

// SamplingRow with what it points to in device memory.
struct DeviceSamplingRow {
  float temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  int32_t top_k, draft, forced, logprobs;
  uint32_t stream;
  bool raw_logprobs;
  uint64_t seed;
  int64_t position;
  const LogitBias* logit_bias;
  const TokenCount* counts;
  const uint32_t* allowed;
  const float* draft_logits;
  int64_t logit_bias_count, count_count;
};

struct SampleStep {
  MatrixView<float> logits;                 // [rows, vocabulary]
  const DeviceSamplingRow* rows = nullptr;  // [rows]
  float* raw = nullptr;                     // [rows, vocabulary]: of rows with raw_logprobs
  SampledRow* result = nullptr;             // [rows]
  TokenLogprob* top = nullptr;              // [rows, top_columns]
  int64_t top_columns = 0;
};

Status any_sample(const SampleStep& step, Stream stream);

}  // namespace deepinfer::cuda
