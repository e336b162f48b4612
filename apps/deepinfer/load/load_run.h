// Runs requests on an engine with a fixed number at a time and measures what their senders see.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"

namespace deepinfer::cli {

// Of some values, in seconds.
struct Percentiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};
Percentiles percentiles(std::vector<double> values);

struct LoadResult {
  int64_t concurrency = 0;
  int64_t requests = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0, cached_tokens = 0;
  int64_t rounds = 0, drafted = 0, accepted = 0;
  int64_t steps = 0;
  double seconds = 0;                 // first submission to last end
  double step_seconds = 0;            // of it, steps on the device
  double plan_seconds = 0;            // of it, planning; beside the steps
  Percentiles first_token;            // after submission
  Percentiles inter_token;            // each token but the first of an answer; tokens of one update share its gap
  Percentiles request;                // submission to end
  double user_tokens_per_second = 0;  // mean over requests: tokens after the first by the time that they took

  double tokens_per_second() const { return static_cast<double>(answer_tokens) / seconds; }
  double requests_per_second() const { return static_cast<double>(requests) / seconds; }
  double tokens_per_round() const;
};

// The error of the first request that was refused or failed.
Result<LoadResult> run_load(Engine& engine, std::vector<EngineRequest> requests, int64_t concurrency);

}  // namespace deepinfer::cli
