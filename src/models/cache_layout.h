// CacheLayout: what a model keeps of a sequence between steps, as groups of records.  Declared by a model, laid out in
// memory by whoever owns the sequences (SequenceCache for one at a time), read and written by Model::forward alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/sequence.h"

namespace deepinfer {

enum class CacheRetention : uint8_t {
  kFullHistory,    // one record every tokens_per_record tokens, in blocks
  kSlidingWindow,  // a ring of records by position; only the last `window` of them matter
  kRunningState,   // a ring of records by position; only the newest matter
};
std::string_view to_string(CacheRetention retention);

// Records of one kind and geometry, one part for each layer that owns them.
struct CacheGroupSpec {
  std::string name;
  CacheRetention retention = CacheRetention::kFullHistory;
  std::vector<int> layers;  // owners, ascending; draft stages count on from the last layer
  int64_t record_bytes = 0;
  int64_t tokens_per_record = 1;  // kFullHistory
  int64_t window = 0;             // kSlidingWindow: records of earlier positions that a row reads, its own included
  int64_t slots = 0;              // rings; 0 for kFullHistory
  // kSlidingWindow: every continuation of a prefix reads the windows at its end.  Other windows are read by
  // continuations whose logits are wanted soon after it (Model::resumable).
  bool early = false;

  bool is_ring() const { return retention != CacheRetention::kFullHistory; }
};

struct CacheLayout {
  // Tokens of a block of full history; every group's share of it is whole records.
  int64_t tokens_per_block = 128;
  std::vector<CacheGroupSpec> groups;
  int lookback_tokens = 0;  // token ids before a step's first row that forward needs (Engram)

  int64_t bytes_per_block() const;     // of all full-history groups together
  int64_t bytes_per_sequence() const;  // of all rings together, whatever the length
};

// Where the records of one sequence lie.  Both lists are ordered by group, then by layer, full-history groups in one
// and rings in the other.
struct CacheView {
  std::span<const BlockList> histories;
  std::span<const Ring> rings;
};

}  // namespace deepinfer
