// The recorded choices of tests/data/model/sampling.jsonl and the logits they refer to (golden/model/README.md,
// "sampling").
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/sample.h"

namespace deepinfer {

// All lines of one kind: philox, gumbel, gumbel_sum, weight, noise, choice.
std::vector<nlohmann::json> sampling_lines(const std::string& kind);

struct SamplingCase {
  std::vector<float> logits;
  std::vector<uint32_t> allowed;  // empty: every token
  SamplingRow row;                // `allowed` is to be set by the test: the case may move
  int32_t token = 0;
  int32_t kept = 0;
  uint32_t key_bits = 0;
};
std::vector<SamplingCase> sampling_choices();

// kind: flat, peaked, ties or equal, by exact fp32 operations on Philox words.
std::vector<float> made_up_logits(const std::string& kind, int64_t vocabulary, uint64_t number);

}  // namespace deepinfer
