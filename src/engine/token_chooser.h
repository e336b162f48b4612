// TokenChooser: a request's sampling parameters turned into choices, one row at a time.  Made per request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/generator.h"
#include "engine/sampling_row.h"
#include "engine/speculation/draft_proposal.h"
#include "engine/token_counts.h"
#include "grammar/grammar_matcher.h"
#include "ops/ops.h"

namespace deepinfer {

class TokenChooser {
 public:
  // params outlives it.  most_tokens: of the answer; vocabulary: of the model.  From then on nothing is allocated, but
  // by the grammar that the answer is held to, where there is one.
  TokenChooser(const GenerationParams& params, std::span<const int32_t> prompt, int64_t most_tokens, int32_t vocabulary,
               Ops& ops, std::optional<GrammarMatcher> grammar);

  // The token at `position` from a row of logits, which is changed.  kCorruptFile when the model's logits are not
  // finite: what validate() allows cannot make them so.  Errors of the grammar's masks.
  // The choice depends on the logits, the parameters, the tokens counted so far and the position only.
  Result<GeneratedToken> choose(MatrixView<float> logits, int64_t position);
  // Counts a chosen token for penalties of later ones.
  void count(int32_t token);
  SamplingRow draft_sampling() const;

  // Rejection sampling (speculative_sampling): choices test the drafts of the proposal.  drafts: of a round.
  void test_drafts(int drafts) { tests_drafts_ = deepinfer::tests_drafts(params_, drafts); }
  bool tests_drafts() const { return tests_drafts_; }
  DraftProposal& proposal() { return proposal_; }

 private:
  SamplingRow row(int64_t position) const;

  const GenerationParams& params_;
  Ops& ops_;
  TokenCounts counts_;
  bool tests_drafts_ = false;
  DraftProposal proposal_;
  std::optional<GrammarMatcher> grammar_;
  std::vector<uint32_t> mask_;  // of the row that is chosen from; empty without a grammar
  std::vector<TokenLogprob> top_;
};

}  // namespace deepinfer
