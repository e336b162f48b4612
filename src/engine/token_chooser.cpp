#include "engine/token_chooser.h"

#include <algorithm>
#include <utility>

#include "engine/undrawable_row.h"

namespace deepinfer {

TokenChooser::TokenChooser(const GenerationParams& params, std::span<const int32_t> prompt, int64_t most_tokens,
                           int32_t vocabulary, Ops& ops, std::optional<GrammarMatcher> grammar)
    : params_(params), ops_(ops), grammar_(std::move(grammar)) {
  if (grammar_) mask_.resize(grammar_->mask_words());
  if (penalized(params_)) {
    counts_.reserve(std::min(static_cast<size_t>(vocabulary), prompt.size() + static_cast<size_t>(most_tokens)));
    counts_.add_prompt(prompt);
  }
  top_.resize(static_cast<size_t>(std::max(params.logprobs, 0)));
}

SamplingRow TokenChooser::row(int64_t position) const {
  SamplingRow row = sampling_row(params_);
  row.position = position;
  row.counts = counts_.list();
  if (grammar_) row.allowed = mask_.data();
  proposal_.add_test(0, row);
  return row;
}

SamplingRow TokenChooser::draft_sampling() const {
  SamplingRow draft = draft_sampling_row(params_, tests_drafts_);
  draft.counts = counts_.list();
  return draft;
}

Result<GeneratedToken> TokenChooser::choose(MatrixView<float> logits, int64_t position) {
  if (grammar_) DI_RETURN_IF_ERROR(grammar_->fill_mask(mask_));
  const SamplingRow wish = row(position);
  SampledRow result;
  const MatrixView<TokenLogprob> top(top_.data(), top_.empty() ? 0 : 1, static_cast<int64_t>(top_.size()));
  ops_.sample({logits, {&wish, 1}, {&result, 1}, top});
  if (!drawn(result)) return undrawable(ops_.memory(), logits, position, grammar_.has_value());
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
  proposal_.decide(token);
  if (penalized(params_)) counts_.add_output(token);
  if (grammar_) DI_CHECK(grammar_->accept(token), "the mask allows what the grammar does");
}

}  // namespace deepinfer
