#include "grammar/call_opening.h"

#include <utility>

namespace deepinfer {

CallOpening::CallOpening(std::string opening, const std::vector<std::string>& tokens)
    : text_(std::move(opening)), borders_(text_.size(), 0), openers_(text_.size()) {
  for (size_t i = 1; i < text_.size(); ++i) {
    size_t border = borders_[i - 1];
    while (border > 0 && text_[border] != text_[i]) border = borders_[border - 1];
    borders_[i] = text_[border] == text_[i] ? border + 1 : 0;
  }
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    // Only a token with the opening's last byte can complete it.
    if (token.find(text_.back()) == std::string_view::npos) continue;
    for (size_t matched = 0; matched < text_.size(); ++matched)
      if (advance(matched, token).rest) openers_[matched].push_back(static_cast<int32_t>(id));
  }
}

CallOpening::Step CallOpening::advance(size_t matched, std::string_view token) const {
  if (token.empty()) return {};
  for (size_t i = 0; i < token.size(); ++i) {
    while (matched > 0 && text_[matched] != token[i]) matched = borders_[matched - 1];
    if (text_[matched] == token[i]) ++matched;
    if (matched == text_.size()) return {matched, i + 1};
  }
  return {matched, {}};
}

}  // namespace deepinfer
