// CacheTier: what lies below the block pool, as the scheduler sees it.  It hears of every prefix that has been published
// and written, so that it can keep a copy, and is asked for what a preempted request has lost.  Implemented by the
// engine, called by the scheduler on its thread.
#pragma once

#include <cstdint>
#include <span>

#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/snapshot.h"
#include "scheduling/request.h"

namespace deepinfer {

// A preempted request that could be admitted now, but the pool has less of its records than it had.
struct LostPrefix {
  RequestId request = 0;
  uint64_t salt = 0;
  std::span<const int32_t> tokens;  // all that are known; valid during the call
  int64_t logits_from = 0;          // as SnapshotRule::usable
  int64_t cached = 0;               // tokens that the pool still has
  int64_t written = 0;              // tokens that had records
  Time deadline = kNever;
};

class CacheTier {
 public:
  virtual ~CacheTier() = default;
  // A snapshot and the blocks below it: info.position tokens and a block for each tokens_per_block of them.  The plan
  // that wrote the last of them has been answered; they are held until the call returns and may be written to again
  // soon after it.
  virtual void published(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                         const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) = 0;
  // True: it is looked for, and the request waits until Scheduler::tier_answered().  False: computing it again is as
  // good.
  virtual bool bring_back(const LostPrefix& lost, Time now) = 0;
  // The request waits no longer.
  virtual void forget(RequestId request) = 0;
};

}  // namespace deepinfer
