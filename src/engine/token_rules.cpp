#include "engine/token_rules.h"

#include <algorithm>
#include <utility>

namespace deepinfer {
namespace {

// Whether `word` without its last token ends `text`.
bool about_to_complete(std::span<const int32_t> text, const std::vector<int32_t>& word) {
  const size_t before = word.size() - 1;
  return before <= text.size() && std::equal(word.begin(), word.end() - 1, text.end() - static_cast<int64_t>(before));
}

}  // namespace

TokenRules::TokenRules(const EngineRequest& request, int32_t vocabulary, std::optional<GrammarMatcher> grammar)
    : request_(request), grammar_(std::move(grammar)), words_((vocabulary + 31) / 32) {
  if (request.allowed_tokens.empty()) return;
  allowed_.assign(static_cast<size_t>(words_), 0);
  for (const int32_t token : request.allowed_tokens) allowed_[static_cast<size_t>(token / 32)] |= 1U << (token % 32);
}

bool TokenRules::any() const {
  return grammar_ || !allowed_.empty() || !request_.bad_words.empty() || request_.min_tokens > 0;
}

Status TokenRules::fill(std::span<const int32_t> answer, std::span<const int32_t> drafts) {
  const auto rows = static_cast<int64_t>(drafts.size()) + 1;
  masks_.resize(static_cast<size_t>(rows * words_));
  plain_.assign(static_cast<size_t>(rows), 0);
  std::span<uint32_t> masks(masks_);
  int64_t filled = rows;
  if (grammar_) {
    DI_ASSIGN_OR_RETURN(filled, grammar_->masks_along(drafts, masks));
  } else {
    std::fill(masks.begin(), masks.end(), ~0U);
  }
  text_.assign(answer.begin(), answer.end());
  for (int64_t row = 0; row < filled; ++row) {
    if (row > 0) text_.push_back(drafts[static_cast<size_t>(row - 1)]);
    if (!grammar_ && plain_row(static_cast<int64_t>(text_.size()), text_)) {
      plain_[static_cast<size_t>(row)] = 1;
      continue;
    }
    const std::span<uint32_t> mask = masks.subspan(static_cast<size_t>(row * words_), static_cast<size_t>(words_));
    if (!allowed_.empty()) std::transform(mask.begin(), mask.end(), allowed_.begin(), mask.begin(), std::bit_and<>());
    for (const std::vector<int32_t>& word : request_.bad_words) {
      if (about_to_complete(text_, word)) forbid(word.back(), mask);
    }
    if (static_cast<int64_t>(text_.size()) < request_.min_tokens) {
      for (const int32_t token : request_.params.stop_tokens) forbid(token, mask);
    }
  }
  // Behind a draft that is not allowed nothing is read.
  std::fill(plain_.begin() + filled, plain_.end(), 1);
  return {};
}

bool TokenRules::plain_row(int64_t index, std::span<const int32_t> before) const {
  return allowed_.empty() && index >= request_.min_tokens &&
         std::none_of(request_.bad_words.begin(), request_.bad_words.end(),
                      [&](const auto& word) { return about_to_complete(before, word); });
}

const uint32_t* TokenRules::mask(int64_t row) const {
  // Where fill() ran out of memory the row's choice is not taken, but it is made.
  if (static_cast<size_t>(row) >= plain_.size()) return nullptr;
  return plain_[static_cast<size_t>(row)] != 0 ? nullptr : masks_.data() + row * words_;
}

bool TokenRules::accept(int32_t token) {
  return !grammar_ || grammar_->accept(token);
}

}  // namespace deepinfer
