#include "engine/token_chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/undrawable_row.h"

namespace deepinfer {
TokenChooser::TokenChooser(const GenerationParams& params, std::span<const int32_t> prompt, int64_t most_tokens,
                           int32_t vocabulary, Ops& ops)
    : params_(params), ops_(ops) {
  if (penalized()) {
    counts_.reserve(std::min(static_cast<size_t>(vocabulary), prompt.size() + static_cast<size_t>(most_tokens)));
    counts_.add_prompt(prompt);
  }
  top_.resize(static_cast<size_t>(std::max(params.logprobs, 0)));
}

bool TokenChooser::penalized() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0;
}

SamplingRow TokenChooser::row(int64_t position) const {
  SamplingRow row;
  row.temperature = params_.temperature;
  row.top_p = params_.top_p;
  row.min_p = params_.min_p;
  row.top_k = params_.top_k;
  row.repetition_penalty = params_.repetition_penalty;
  row.presence_penalty = params_.presence_penalty;
  row.frequency_penalty = params_.frequency_penalty;
  row.seed = params_.seed;
  row.position = position;
  row.logit_bias = params_.logit_bias;
  row.counts = counts_.list();
  row.logprobs = params_.logprobs;
  row.raw_logprobs = params_.raw_logprobs;
  return row;
}

SamplingRow TokenChooser::draft_sampling() const {
  SamplingRow draft = row(0);
  draft.top_p = 1;
  draft.min_p = 0;
  draft.top_k = 0;
  draft.logprobs = -1;
  return draft;
}

Result<GeneratedToken> TokenChooser::choose(MatrixView<float> logits, int64_t position) {
  const SamplingRow wish = row(position);
  SampledRow result;
  const MatrixView<TokenLogprob> top(top_.data(), top_.empty() ? 0 : 1, static_cast<int64_t>(top_.size()));
  ops_.sample({logits, {&wish, 1}, {&result, 1}, top});
  if (!drawn(result)) return undrawable(logits, position, false);
  GeneratedToken token;
  token.token = result.token;
  token.position = position;
  token.logprob = result.logprob;
  for (const TokenLogprob& entry : top_) {
    if (entry.token >= 0) token.top_logprobs.push_back(entry);
  }
  return token;
}

void TokenChooser::count(int32_t token) {
  if (penalized()) counts_.add_output(token);
}

}  // namespace deepinfer
