// RequestSampling: a request's sampling parameters as rows of the sampler, for a step with drafts: the row behind a
// draft counts that draft as if it had been decided.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/speculation/draft_proposal.h"
#include "engine/token_counts.h"
#include "engine/token_rules.h"
#include "ops/sample.h"

namespace deepinfer {

class RequestSampling {
 public:
  // request outlives it.
  RequestSampling(const EngineRequest& request, std::span<const int32_t> prompt, int32_t vocabulary,
                  std::optional<GrammarMatcher> grammar);

  // Whether fill_masks() has to come before add_rows(); it may run beside the forward pass.
  bool masked() const { return rules_.any(); }
  Status fill_masks(std::span<const int32_t> answer, std::span<const int32_t> drafts) {
    return rules_.fill(answer, drafts);
  }

  // Appends the rows that choose the tokens of positions position, position + 1, .. position + drafts.size().  They
  // refer to this object and are valid until its next call.
  void add_rows(int64_t position, std::span<const int32_t> drafts, std::vector<SamplingRow>& rows);
  // The row that reports what was thought of a prompt token: no penalties, no masks.
  SamplingRow prompt_row(int32_t token) const;
  // A decided token, for the penalties and the grammar of later ones.  False: the grammar does not allow it.
  bool count(int32_t token);
  SamplingRow draft_row() const;

  // Rejection sampling (speculative_sampling): the rows of add_rows() test the drafts of the proposal.
  bool tests_drafts() const { return tests_drafts_; }
  const DraftProposal& proposal() const { return proposal_; }
  // drafts: drawn by draft_row(); logits: what each was drawn from.
  void propose(std::span<const int32_t> drafts, MatrixView<const float> logits, Memory& memory) {
    proposal_.begin(drafts, logits, memory);
  }

 private:
  SamplingRow row(int64_t position, int64_t index) const;

  const EngineRequest& request_;
  const GenerationParams& params_;
  int64_t prompt_tokens_;
  const bool tests_drafts_;
  DraftProposal proposal_;
  TokenRules rules_;
  TokenCounts counts_;
  std::vector<TokenCounts> with_drafts_;  // after each draft of the step
};

}  // namespace deepinfer
