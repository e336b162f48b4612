// CacheTierFeed: hears of every prefix that has been published and written, so that tiers below the block pool can copy
// it.  Implemented by the engine, called by the scheduler.
#pragma once

#include <cstdint>
#include <span>

#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/snapshot.h"

namespace deepinfer {

class CacheTierFeed {
 public:
  virtual ~CacheTierFeed() = default;
  // A snapshot and the blocks below it: info.position tokens and a block for each tokens_per_block of them.  The plan
  // that wrote the last of them has been answered; they are held until the call returns and may be written to again
  // soon after it.
  virtual void published(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                         const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) = 0;
};

}  // namespace deepinfer
