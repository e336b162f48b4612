// RequestSampling: a request's sampling parameters as rows of the sampler, for a step with drafts: the row behind a
// draft counts that draft as if it had been decided.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/generator.h"
#include "engine/token_counts.h"
#include "ops/sample.h"

namespace deepinfer {

class RequestSampling {
 public:
  // params outlives it.
  RequestSampling(const GenerationParams& params, std::span<const int32_t> prompt);

  // Appends the rows that choose the tokens of positions position, position + 1, .. position + drafts.size().  They
  // refer to this object and are valid until its next call.
  void add_rows(int64_t position, std::span<const int32_t> drafts, std::vector<SamplingRow>& rows);
  // A decided token, for the penalties of later ones.
  void count(int32_t token);
  // For drafts: the same noise, bias and penalties, without filters (they change acceptance only).
  SamplingRow draft_row() const;

 private:
  bool penalized() const;
  SamplingRow row(int64_t position) const;

  const GenerationParams& params_;
  TokenCounts counts_;
  std::vector<TokenCounts> with_drafts_;  // after each draft of the step
};

}  // namespace deepinfer
