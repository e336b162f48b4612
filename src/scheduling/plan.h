// StepPlan: one step of the executor, as decided by the scheduler.  Made by Scheduler::next_plan while an earlier plan
// runs, so it speaks of counts that are not known yet as upper bounds; the executor, which knows every token, runs what
// is really there.
//
// Order inside a step: saves_before, admissions (with their restores, also from what was just saved), growths, rows,
// saves_after, then retirements. Lists of block ids lie one after the other in block_ids.  A plan's memory is reused:
// no allocation in steady state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/snapshot.h"
#include "scheduling/request.h"

namespace deepinfer {

// Part of StepPlan::block_ids.
struct BlockRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Copies the windows that a sequence has at `info.position` between its state slot and the blocks of a snapshot.
struct SnapshotCopy {
  RequestId request = 0;
  SnapshotKind kind = SnapshotKind::kFull;
  int64_t position = 0;  // a block boundary
  BlockRange blocks;     // of the snapshot
};

// A sequence starts, or starts again after preemption.
struct Admission {
  RequestId request = 0;
  int state_slot = 0;
  int64_t position = 0;      // tokens that need no computation: 0 or that of `restore`
  int64_t known_tokens = 0;  // prompt, and after preemption the tokens delivered before it
  int64_t most_tokens = 0;   // prompt and answer: the executor decides no token beyond, and ends it with kLength there
  BlockRange blocks;         // its block table
  bool restores = false;
  SnapshotCopy restore;   // to be copied into the state slot before any row
  SnapshotInfo restored;  // what it holds
};

// The block table of a sequence gets longer.
struct BlockGrowth {
  RequestId request = 0;
  BlockRange blocks;
};

// Known tokens [position, position + rows) of a sequence.
struct PrefillChunk {
  RequestId request = 0;
  int64_t position = 0;
  int64_t rows = 0;
  bool last = false;  // its last row gives the next token
};

// The last token of a sequence and drafts behind it.
struct DecodeRows {
  RequestId request = 0;
  int drafts = 0;  // at most this many
};

struct StepPlan {
  uint64_t number = 0;                     // 1, 2, ...; results come back in this order
  std::vector<SnapshotCopy> saves_before;  // of sequences that end here or were preempted
  std::vector<Admission> admissions;
  std::vector<BlockGrowth> growths;
  std::vector<PrefillChunk> prefills;
  std::vector<DecodeRows> decodes;
  std::vector<SnapshotCopy> saves_after;  // of prompts that have just passed a boundary
  std::vector<RequestId> retirements;     // the executor forgets state slot and block table
  std::vector<BlockId> block_ids;

  int64_t prefill_rows = 0;
  int64_t decode_rows = 0;  // at most

  std::span<const BlockId> blocks(const BlockRange& range) const {
    return std::span(block_ids).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }
  bool empty() const {
    return saves_before.empty() && admissions.empty() && prefills.empty() && decodes.empty() && saves_after.empty() &&
           retirements.empty();
  }
  void clear();
};

}  // namespace deepinfer
