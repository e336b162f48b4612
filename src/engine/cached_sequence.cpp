#include "engine/cached_sequence.h"

#include <algorithm>

#include "base/check.h"

namespace deepinfer {

Result<CachedSequence> CachedSequence::create(const Model& model, int64_t max_context) {
  DI_ASSIGN_OR_RETURN(SequenceCache cache, SequenceCache::create(model.cache_layout()));
  if (const Status status = cache.reserve(max_context); !status.ok())
    return Status(status.code(), status.message() + "; a smaller max_context needs less");
  CachedSequence sequence(std::move(cache));
  sequence.tokens_.reserve(static_cast<size_t>(max_context));
  return sequence;
}

int64_t CachedSequence::begin(const Model& model, std::span<const int32_t> prompt, const RowRule& rule) {
  const auto old = std::span<const int32_t>(tokens_).first(static_cast<size_t>(processed()));
  const auto differ = std::mismatch(old.begin(), old.end(), prompt.begin(), prompt.end()).first;
  // The last token of a prompt is always processed: its logits are wanted.
  int64_t keep = std::min<int64_t>(differ - old.begin(), static_cast<int64_t>(prompt.size()) - 1);
  if (!model.resumable(written_, keep, rule)) keep = 0;
  if (keep == 0) written_ = {};
  written_.processed = keep;
  if (rule.kind == RowRule::Kind::kExact) written_.exact_from = std::max(written_.exact_from, rule.from);
  tokens_.resize(static_cast<size_t>(keep));
  draft_context_from_ = std::min(draft_context_from_, keep);
  draft_context_start_ = model.draft_context_start(rule);
  rule_ = rule;
  return keep;
}

StepSequence CachedSequence::append(std::span<const int32_t> tokens, int64_t logits_from, bool draft_context) {
  const auto rows = static_cast<int64_t>(tokens.size());
  DI_CHECK(processed() + rows <= cache_.capacity(), "a sequence stays within the context that it was made for");
  written_.end = std::max(written_.end, processed() + rows);
  tokens_.resize(static_cast<size_t>(processed()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  keeps_draft_context_ = draft_context;
  StepSequence step;
  step.cache = cache_.view();
  step.tokens = tokens_;
  step.rows = rows;
  step.position = processed();
  step.rule = rule_;
  step.logits_from = logits_from;
  step.draft_context = draft_context;
  return step;
}

void CachedSequence::commit(int64_t kept) {
  const int64_t position = processed();
  written_.processed = position + kept;
  tokens_.resize(static_cast<size_t>(written_.processed));
  const int64_t first = std::max(position, draft_context_start_);
  if (!keeps_draft_context_) {
    draft_context_from_ = written_.processed;
  } else if (first > position || draft_context_from_ > position) {
    draft_context_from_ = std::min(first, written_.processed);  // what came before ends in a gap
  }
}

}  // namespace deepinfer
