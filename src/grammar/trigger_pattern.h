// TriggerPattern: how much of a sequence of tokens stands at the end of what was emitted.  Used by GrammarMatcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace deepinfer {

class TriggerPattern {
 public:
  explicit TriggerPattern(std::vector<int32_t> tokens);

  size_t size() const { return tokens_.size(); }
  int32_t token(size_t at) const { return tokens_[at]; }
  // Tokens of the pattern that stand at the end of the output after `token`, when `matched` did before it.
  size_t advance(size_t matched, int32_t token) const;

 private:
  std::vector<int32_t> tokens_;
  std::vector<size_t> borders_;  // Knuth-Morris-Pratt: longest proper border of tokens[0..i]
};

}  // namespace deepinfer
