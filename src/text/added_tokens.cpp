#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace deepinfer {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.spelling < b.spelling; });
  for (const AddedToken& token : tokens_) starts_[static_cast<unsigned char>(token.spelling[0])] = true;
}

std::optional<std::int32_t> AddedTokens::find(std::string_view spelling) const {
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), spelling,
                                   [](const AddedToken& token, std::string_view s) { return token.spelling < s; });
  if (at == tokens_.end() || at->spelling != spelling) return std::nullopt;
  return at->id;
}

std::optional<AddedTokens::Match> AddedTokens::next(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<unsigned char>(text[begin])]) continue;
    // Narrow the sorted spellings to those that share the text's first `length` bytes.
    auto low = tokens_.begin(), high = tokens_.end();
    const AddedToken* longest = nullptr;
    for (std::size_t length = 0; low != high; ++length) {
      if (low->spelling.size() == length) longest = &*low++;
      if (low == high || begin + length == text.size()) break;
      const auto byte = static_cast<unsigned char>(text[begin + length]);
      const auto at = [&](const AddedToken& token) { return static_cast<unsigned char>(token.spelling[length]); };
      low = std::lower_bound(low, high, byte, [&](const AddedToken& token, unsigned char b) { return at(token) < b; });
      high = std::upper_bound(low, high, byte, [&](unsigned char b, const AddedToken& token) { return b < at(token); });
    }
    if (longest != nullptr) return Match{begin, begin + longest->spelling.size(), longest->id};
  }
  return std::nullopt;
}

}  // namespace deepinfer
