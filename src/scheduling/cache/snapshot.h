// Snapshots: the windows of a sequence at a block boundary, copied into blocks of the pool.  With the full-history
// blocks below the boundary they let another sequence go on from there with the bits of a fresh start.
#pragma once

#include <cstdint>

namespace deepinfer {

enum class SnapshotKind : uint8_t {
  kFull,   // all windows and the draft context
  kEarly,  // the windows that every continuation reads (of the first half of the layers): long prompts only
};

struct SnapshotInfo {
  SnapshotKind kind = SnapshotKind::kFull;
  int64_t position = 0;            // tokens before the boundary
  int64_t exact_from = 0;          // WrittenRows::exact_from of the sequence it was taken from
  int64_t draft_context_from = 0;  // draft context exists for [draft_context_from, position)
};

// The model's rule for going on from a snapshot with the bits of a fresh start (v41-model.md 3.4).
class SnapshotRule {
 public:
  virtual ~SnapshotRule() = default;
  // Whether a sequence whose logits are wanted from position logits_from on can start at the snapshot.  Asked of a full
  // snapshot also as if it were an early one: it holds all that an early one does.
  virtual bool usable(const SnapshotInfo& snapshot, int64_t logits_from) const = 0;
};

}  // namespace deepinfer
