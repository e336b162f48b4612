// TokenRules: which tokens the rows of a request may choose: a list of allowed ones, sequences that must not occur,
// stop tokens that are too early, and a grammar.  One per request; made into masks for the rows of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "grammar/grammar_matcher.h"

namespace deepinfer {

class TokenRules {
 public:
  // request outlives it.  vocabulary: width of the logits.
  TokenRules(const EngineRequest& request, int32_t vocabulary, std::optional<GrammarMatcher> grammar);

  bool any() const;

  // Makes the masks of the rows that choose the tokens behind `answer`, and behind each of the drafts that follow it.
  // From the first draft that is not allowed on, rows are never looked at.  Independent of all other requests.
  Status fill(std::span<const int32_t> answer, std::span<const int32_t> drafts);
  // Of row i of the last fill(), for SamplingRow::allowed; null where everything is allowed.
  const uint32_t* mask(int64_t row) const;

  // A token was decided.  False: the grammar does not allow it (a forced token).
  bool accept(int32_t token);

 private:
  bool plain_row(int64_t index, std::span<const int32_t> before) const;
  void forbid(int32_t token, std::span<uint32_t> mask) const { mask[token / 32] &= ~(1U << (token % 32)); }

  const EngineRequest& request_;
  std::optional<GrammarMatcher> grammar_;
  std::vector<uint32_t> allowed_;  // of request.allowed_tokens; empty: all
  std::vector<uint32_t> masks_;    // [rows, words]
  std::vector<uint8_t> plain_;     // of each row: everything is allowed
  std::vector<int32_t> text_;      // answer and drafts
  int64_t words_ = 0;
};

}  // namespace deepinfer
