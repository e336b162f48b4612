#include "engine/cached_sequence.h"

#include <algorithm>

#include "base/check.h"

namespace deepinfer {

Result<CachedSequence> CachedSequence::create(const Model& model, int64_t max_context, Memory& memory) {
  DI_ASSIGN_OR_RETURN(SequenceCache cache, SequenceCache::create(model.cache_layout(), memory));
  if (const Status status = cache.reserve(max_context); !status.ok())
    return Status(status.code(), status.message() + "; a smaller max_context needs less");
  CachedSequence sequence(std::move(cache));
  sequence.tokens_.reserve(static_cast<size_t>(max_context));
  return sequence;
}

int64_t CachedSequence::begin(const Model& model, std::span<const int32_t> prompt, const RowRule& rule,
                              bool whole_draft_context) {
  const auto old = std::span<const int32_t>(tokens_).first(static_cast<size_t>(processed()));
  const auto differ = std::mismatch(old.begin(), old.end(), prompt.begin(), prompt.end()).first;
  // The last token of a prompt is always processed: its logits are wanted.
  int64_t keep = std::min<int64_t>(differ - old.begin(), static_cast<int64_t>(prompt.size()) - 1);
  if (!model.resumable(progress_.written(), keep, rule)) keep = 0;
  if (whole_draft_context && std::min(keep, progress_.draft_context_from()) > model.draft_context_start(rule)) keep = 0;
  WrittenRows written = keep == 0 ? WrittenRows() : progress_.written();
  written.processed = keep;
  progress_.start(model, written, progress_.draft_context_from(), rule);
  tokens_.resize(static_cast<size_t>(keep));
  return keep;
}

StepSequence CachedSequence::append(std::span<const int32_t> tokens, int64_t logits_from, bool draft_context) {
  const auto rows = static_cast<int64_t>(tokens.size());
  DI_CHECK(processed() + rows <= cache_.capacity(), "a sequence stays within the context that it was made for");
  progress_.write(rows, draft_context);
  tokens_.resize(static_cast<size_t>(processed()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  StepSequence step;
  step.cache = cache_.view();
  step.tokens = tokens_;
  step.rows = rows;
  step.position = processed();
  step.rule = progress_.rule();
  step.logits_from = logits_from;
  step.draft_context = draft_context;
  return step;
}

void CachedSequence::commit(int64_t kept) {
  progress_.commit(kept);
  tokens_.resize(static_cast<size_t>(processed()));
}

}  // namespace deepinfer
