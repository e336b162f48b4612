#include "engine/sequence_progress.h"

#include <algorithm>

namespace deepinfer {

void SequenceProgress::start(const Model& model, const WrittenRows& written, int64_t draft_context_from,
                             const RowRule& rule) {
  written_ = written;
  if (rule.kind == RowRule::Kind::kExact) written_.exact_from = std::max(written_.exact_from, rule.from);
  rule_ = rule;
  draft_context_from_ = std::min(draft_context_from, written.processed);
  draft_context_start_ = model.draft_context_start(rule);
}

void SequenceProgress::write(int64_t rows, bool draft_context) {
  written_.end = std::max(written_.end, written_.processed + rows);
  writes_draft_context_ = draft_context;
}

void SequenceProgress::commit(int64_t kept) {
  const int64_t position = written_.processed;
  written_.processed = position + kept;
  const int64_t first = std::max(position, draft_context_start_);
  if (!writes_draft_context_) {
    draft_context_from_ = written_.processed;
  } else if (first > position || draft_context_from_ > position) {
    draft_context_from_ = std::min(first, written_.processed);  // what came before ends in a gap
  }
}

}  // namespace deepinfer
