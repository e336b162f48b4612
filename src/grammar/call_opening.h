// CallOpening: how much of the text that opens a block of tool calls stands at the end of free text, token by token.
// Used by GrammarMatcher, so that free text of any length costs nothing but this.  One for each vocabulary and opening.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

class CallOpening {
 public:
  // tokens: the bytes of each; a token without bytes breaks off what was matched.
  CallOpening(std::string opening, const std::vector<std::string>& tokens);

  const std::string& text() const { return text_; }

  struct Step {
    size_t matched = 0;          // bytes of the opening at the end of the text
    std::optional<size_t> rest;  // it is complete: where in the token the text behind it begins
  };
  Step advance(size_t matched, std::string_view token) const;
  // The tokens that complete the opening when `matched` bytes, less than all, stand before them.
  std::span<const int32_t> openers(size_t matched) const { return openers_[matched]; }

 private:
  std::string text_;
  std::vector<size_t> borders_;  // Knuth-Morris-Pratt: longest proper border of text[0..i]
  std::vector<std::vector<int32_t>> openers_;
};

}  // namespace deepinfer
