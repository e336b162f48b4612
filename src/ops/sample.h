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

inline constexpr float kGreedyBelow = 1e-5f;  // of temperatures

// What one row asks for.  Order of everything (specs/dspark.md 5.2b, "Order"): bias, repetition, presence, frequency,
// each one fp32 operation; error check; mask; then greedy, or top-k, top-p, min-p and the draw.
struct SamplingRow {
  float temperature = 1;         // below kGreedyBelow: greedy; the filters, seed and position are ignored then
  float top_p = 1;               // >= 1: off
  float min_p = 0;               // 0: off
  int32_t top_k = 0;             // 0: off
  float repetition_penalty = 1;  // 1: off; of tokens in prompt or output: z > 0 ? z / r : z * r
  float presence_penalty = 0;    // 0: off; z - presence if in_output > 0
  float frequency_penalty = 0;   // 0: off; fma(-frequency, in_output, z)
  uint64_t seed = 0;
  int64_t position = 0;  // of the token being drawn, in the whole sequence; below 2^32
  uint32_t stream = 0;
  std::span<const LogitBias> logit_bias;  // unique tokens of the vocabulary
  std::span<const TokenCount> counts;     // unique tokens of the vocabulary; needed where a penalty is on
  const uint32_t* allowed = nullptr;      // mask, bit v % 32 of word v / 32 is token v; null: all
  int32_t draft = -1;                     // of DraftTest; -1: a plain draw
  const float* draft_logits = nullptr;    // [vocabulary], of DraftTest
  int32_t forced = -1;                    // this token is the choice, whatever the logits say; -1: draw
  int32_t logprobs = -1;                  // -1: none; 0: of the chosen token; k: also of the k most likely tokens
  bool raw_logprobs = false;  // of the logits as the model gave them; else of the distribution that was drawn from
};

// DraftTest: rejection sampling of a draft (specs/dspark.md 5.2, mode R), in place of a plain draw, where a row names
// one.  The draft was drawn with the noise of stream + kDraftStream from q, the softmax of draft_logits / temperature
// (bias and penalties of the draft applied, no filters).  It is the choice with the chance min(1, p / q), p what the
// row's filters leave; else the choice is drawn from max(p - q, 0).  So the choice is distributed as p whatever q is.
// To the bit on every backend, in double, with the masses of log-probabilities below:
//   P_v = mass_v / S over the tokens left, Q_v = mass_v / S over all finite draft logits
//   accepted: (w + 1/2) * 2^-32 * Q_draft < P_draft, w = word 0 of the noise at (seed, position, stream +
//   kAcceptStream) else excess_v = trunc(max(P_v - Q_v, 0) * 2^52), R their sum, W the words 1 (high) and 0 (low) of
//   the noise at (seed, position, stream + kExcessStream): the first token whose running sum exceeds floor(R * W *
//   2^-64).
// Without excess (p equals q up to rounding) it is a plain draw.  Greedy rows and forced tokens ignore the draft.
inline constexpr uint32_t kDraftStream = 1, kAcceptStream = 2, kExcessStream = 3;

struct TokenLogprob {
  int32_t token = -1;  // -1: fewer tokens than asked for
  float logprob = 0;
};

// The choice for one row.
struct SampledRow {
  int32_t token = -1;  // -1: no token may be drawn (a NaN or +inf logit before the mask, or no finite logit after it):
                       // an error of that row only; everything else in the row's result is then 0 or -1
  int32_t kept = 0;    // tokens left after the filters; 1 when greedy
  float key = 0;       // of the winner: fma(z, 1 / T, noise), or the logit when greedy; 0 when forced or of a DraftTest
  float logprob = 0;   // of the chosen token, where asked for
};

// Log-probabilities, to the bit on every backend.  Over a set of tokens with logits z and r = 1 / T:
//   d_v = (z_v - zmax) * r;   mass_v = trunc(exp(d_v) * 2^40) with the exp of 5.2b;   S = sum of masses (integers)
//   logprob_v = d_v - ln(float(S) * 2^-40) with the ln of 5.2b; the rounded int64 -> fp32 conversion is to nearest even
// raw: all finite logits of the model, before bias, penalties and mask, r = 1 whatever the temperature.
// processed: the tokens kept by the filters, z after bias, penalties and mask; other tokens are not listed.  A greedy
// row has no filters and r = 1: all finite logits.  A forced token outside the set has -infinity.  Most likely tokens
// are ordered by (z descending, id ascending), the order of the filters.
struct Sample {
  MatrixView<float> logits;  // [rows, vocabulary <= 2^20]; bias, penalties and mask are applied in place
  std::span<const SamplingRow> rows;
  std::span<SampledRow> result;           // [rows]
  MatrixView<TokenLogprob> top_logprobs;  // [rows, most logprobs] or empty; unused places hold {-1, 0}
};

}  // namespace deepinfer
