// CachedSequence: one sequence, its tokens and its cached records, kept from call to call so that a prompt that extends
// it goes on from where it ended.  Owned by the generator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/sequence_progress.h"
#include "models/model.h"
#include "models/sequence_cache.h"

namespace deepinfer {

class CachedSequence {
 public:
  // With room for max_context tokens in a backend's memory: steps allocate nothing.
  static Result<CachedSequence> create(const Model& model, int64_t max_context, Memory& memory);

  // Keeps as many leading tokens of the prompt as may be gone on from with the bits of a fresh start, at most all but
  // the last.  Returns their number.  whole_draft_context: drafts too must be those of a fresh start.
  int64_t begin(const Model& model, std::span<const int32_t> prompt, const RowRule& rule, bool whole_draft_context);

  int64_t processed() const { return progress_.processed(); }
  int64_t draft_context_from() const { return progress_.draft_context_from(); }
  CacheView cache() const { return cache_.view(); }

  // Adds tokens, up to max_context in all, as the rows of a step; the returned part is valid until the next call.
  // Logits come from the rows at positions >= logits_from.  A step that is never committed counts as rolled back.
  StepSequence append(std::span<const int32_t> tokens, int64_t logits_from, bool draft_context);
  // After the step has run: its first `kept` rows count, the others are rolled back.
  void commit(int64_t kept);

 private:
  explicit CachedSequence(SequenceCache cache) : cache_(std::move(cache)) {}

  SequenceCache cache_;
  SequenceProgress progress_;
  std::vector<int32_t> tokens_;  // processed, then those of the step under way
};

}  // namespace deepinfer
