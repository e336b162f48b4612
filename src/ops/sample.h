// The position-keyed sampler, to the bit (specs/dspark.md 5.2b), and the additions that precede it.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/matrix.h"

namespace deepinfer {

// y += x in fp32 (base logits plus Markov bias).
struct AddRows {
  MatrixView<const float> x;  // [rows, n]
  MatrixView<float> y;        // [rows, n]
};

struct LogitBias {
  int32_t token = 0;
  float bias = 0;
};

// A token's number of occurrences, for penalties.
struct TokenCount {
  int32_t token = 0;
  int32_t in_prompt = 0;
  int32_t in_output = 0;
};

// What one row asks for.  Greedy below temperature 1e-5.
struct SamplingRow {
  float temperature = 1;
  float top_p = 1;              // >= 1: off
  float min_p = 0;              // 0: off
  int32_t top_k = 0;            // 0: off
  float repetition_penalty = 1; // of tokens in prompt or output: z > 0 ? z / r : z * r
  float presence_penalty = 0;   // z -= presence if in_output > 0
  float frequency_penalty = 0;  // z -= frequency * in_output
  uint64_t seed = 0;
  int64_t position = 0;         // of the token being drawn, in the whole sequence
  uint32_t stream = 0;
  std::span<const LogitBias> logit_bias;    // unique tokens
  std::span<const TokenCount> counts;       // unique tokens; needed where a penalty is on
  const uint32_t* allowed = nullptr;        // bit mask of the vocabulary, or null: all
  int32_t logprobs = -1;        // -1: none; 0: of the chosen token; k: also of the k most likely tokens
  bool raw_logprobs = false;    // of the logits as the model gave them; else after bias, penalties, mask, temperature and filters
};

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0;
};

// The choice for one row.
struct SampledRow {
  int32_t token = -1;           // -1: no token may be drawn (NaN, +inf or no finite logit): an error of that row only
  int32_t kept = 0;             // tokens left after the filters
  float key = 0;                // of the winner: z / T + noise, or the logit when greedy
  float logprob = 0;            // of the chosen token, where asked for
};

struct Sample {
  MatrixView<float> logits;                 // [rows, vocabulary]; bias, penalties and mask are applied in place
  std::span<const SamplingRow> rows;
  std::span<SampledRow> result;             // [rows]
  MatrixView<TokenLogprob> top_logprobs;    // [rows, most logprobs] or empty; logprob descending, then id ascending
};

}  // namespace deepinfer
