#include "engine/speculation/draft_proposal.h"

#include "base/check.h"

namespace deepinfer {

void DraftProposal::begin(std::span<const int32_t> tokens, MatrixView<const float> logits, Memory& memory) {
  DI_CHECK(!open_ && logits.rows == static_cast<int64_t>(tokens.size()), "one proposal at a time, with its logits");
  tokens_.assign(tokens.begin(), tokens.end());
  vocabulary_ = static_cast<size_t>(logits.columns);
  logits_.resize(tokens_.size() * vocabulary_);
  for (int64_t i = 0; i < logits.rows; ++i)
    memory.read(logits_.data() + static_cast<size_t>(i) * vocabulary_, logits.row(i), vocabulary_ * sizeof(float));
  next_ = 0;
  open_ = true;
}

void DraftProposal::add_test(int64_t index, SamplingRow& row) const {
  const size_t draft = next_ + static_cast<size_t>(index);
  if (!open_ || draft >= tokens_.size()) return;
  row.draft = tokens_[draft];
  row.draft_logits = logits_.data() + draft * vocabulary_;
}

void DraftProposal::decide(int32_t token) {
  if (!open_) return;
  open_ = next_ < tokens_.size() && tokens_[next_] == token;
  if (open_) {
    ++next_;
  } else {
    next_ = tokens_.size();
  }
}

}  // namespace deepinfer
