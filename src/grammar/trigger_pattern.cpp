#include "grammar/trigger_pattern.h"

#include <utility>

namespace deepinfer {

TriggerPattern::TriggerPattern(std::vector<int32_t> tokens) : tokens_(std::move(tokens)), borders_(tokens_.size(), 0) {
  for (size_t i = 1; i < tokens_.size(); ++i) {
    size_t border = borders_[i - 1];
    while (border > 0 && tokens_[border] != tokens_[i]) border = borders_[border - 1];
    borders_[i] = tokens_[border] == tokens_[i] ? border + 1 : 0;
  }
}

size_t TriggerPattern::advance(size_t matched, int32_t token) const {
  while (matched > 0 && (matched == tokens_.size() || tokens_[matched] != token)) matched = borders_[matched - 1];
  return tokens_[matched] == token ? matched + 1 : matched;
}

}  // namespace deepinfer
