// Which windows of a sequence are worth a snapshot, and when.  Used by the scheduler.
//
// - At multiples of early_interval while a prompt is prefilled: kEarly.
// - At the last boundary of a prompt, after its last chunk: kFull.
// - At the last boundary of what is written when a sequence leaves the device: kFull.  In the middle of a prompt
// kEarly,
//   if that serves the same prompt once more.
// Never what the sequence started from, or what was saved before.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduling/cache/cache_coordinator.h"
#include "scheduling/sequence.h"

namespace deepinfer {

struct SnapshotChoice {
  SnapshotKind kind = SnapshotKind::kFull;
  int64_t position = 0;
};

// The boundary that a chunk starting at `position` of `known` tokens is not to cross, for an early snapshot there.
std::optional<int64_t> next_early_boundary(const CacheGeometry& geometry, int64_t position, int64_t known);

// After the chunk that ends at `end` of `known` tokens.
std::optional<SnapshotChoice> snapshot_after_chunk(const CacheGeometry& geometry, const Residence& home, int64_t end,
                                                   int64_t known);

// When the sequence leaves with records of `written` tokens.  prefill_logits_from: in the middle of a prefill.
std::optional<SnapshotChoice> snapshot_at_leaving(const CacheGeometry& geometry, const SnapshotRule& rule,
                                                  const Residence& home, int64_t written,
                                                  std::optional<int64_t> prefill_logits_from);

}  // namespace deepinfer
