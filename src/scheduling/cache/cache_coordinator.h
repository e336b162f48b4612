// CacheCoordinator: blocks, snapshots and state slots of the running sequences.  All cache groups move together: a
// sequence has a block for all of them or none.  Owned by the scheduler.
//
// Costs: admit O(tokens of the prefix that is known), publish O(tokens), all else O(blocks that change hands), besides
// what the prefix index evicts.  Allocates the block table of a sequence, the block list of a snapshot, and what
// prefix_index.h names; the rest when constructed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/prefix_index.h"
#include "scheduling/cache/snapshot.h"

namespace deepinfer {

struct CacheGeometry {
  int64_t blocks = 0;  // of the pool
  int64_t tokens_per_block = 128;
  int64_t full_snapshot_blocks = 0;   // blocks that hold a full snapshot; 0: snapshots are not kept, nothing is shared
  int64_t early_snapshot_blocks = 0;  // 0: none are kept
  int64_t early_interval = 4096;      // tokens between early snapshots of a prompt; a multiple of tokens_per_block
  int state_slots = 1;
};

// What a running sequence owns.  Must be given back to its coordinator; empty after a move.
class SequenceBlocks {
 public:
  SequenceBlocks() = default;
  SequenceBlocks(SequenceBlocks&& other) noexcept
      : table_(std::exchange(other.table_, {})), state_slot_(std::exchange(other.state_slot_, -1)) {}
  SequenceBlocks& operator=(SequenceBlocks&& other) noexcept {
    table_ = std::exchange(other.table_, {});
    state_slot_ = std::exchange(other.state_slot_, -1);
    return *this;
  }

  std::span<const BlockId> table() const { return table_; }
  int state_slot() const { return state_slot_; }

 private:
  friend class CacheCoordinator;
  std::vector<BlockId> table_;  // one holder of each
  int state_slot_ = -1;
};

// A place for a snapshot that is being written or read.
struct SnapshotPlace {
  SnapshotInfo info;
  std::vector<BlockId> blocks;  // held
};

class CacheCoordinator {
 public:
  // Sizes that make no sense abort.  The rule outlives the coordinator.
  CacheCoordinator(const CacheGeometry& geometry, const SnapshotRule& rule, ChainHash hash = chain_hash);

  const CacheGeometry& geometry() const { return geometry_; }
  int64_t blocks_for(int64_t tokens) const;  // rounded up
  // Whether a sequence of this many tokens fits when nothing else runs.
  bool can_ever_fit(int64_t tokens) const;

  struct Admitted {
    SequenceBlocks blocks;
    std::optional<SnapshotPlace> restore;  // give back with release_snapshot() when it has been copied
  };
  // Blocks for `tokens` tokens and a state slot, starting from the longest usable prefix of `known`: at most
  // logits_from tokens, and not all that are known (logits_from -1: the last of them).  Evicts what it must.  Nothing,
  // and nothing changed but the order of eviction, when there is no slot or it does not fit beside `reserve` blocks
  // that stay free or idle.  With nothing held and nothing in reserve whatever can_ever_fit() is admitted, without the
  // prefix if its snapshot is what does not fit.  for_restore: blocks of the reserve that the snapshot may take, since
  // it goes when it has been copied.
  std::optional<Admitted> admit(uint64_t salt, std::span<const int32_t> known, int64_t tokens, int64_t logits_from,
                                bool reuse, int64_t reserve, int64_t for_restore = 0);
  // Makes a sequence's table reach `tokens`; false and nothing changed when there is no room.
  bool extend(SequenceBlocks& sequence, int64_t tokens);
  void release(SequenceBlocks&& sequence);

  // Room for a snapshot; none is a reason to go on without.
  std::optional<SnapshotPlace> place_snapshot(const SnapshotInfo& info);
  void release_snapshot(SnapshotPlace&& place);
  // The records below place.info.position and the snapshot are written: others may use them.
  void publish(uint64_t salt, std::span<const int32_t> tokens, const SequenceBlocks& sequence, SnapshotPlace&& place);
  // The same before the snapshot is written, where whoever reads it does so later.  Its place stays held until it is
  // given back with release_snapshot(), so that nothing else is written there.
  void publish_ahead(uint64_t salt, std::span<const int32_t> tokens, const SequenceBlocks& sequence,
                     const SnapshotPlace& place);

  // Tokens that admit() would start from.
  int64_t cached_prefix(uint64_t salt, std::span<const int32_t> known, int64_t logits_from) const;
  // Publishes a prefix that `fill` writes into fresh blocks.  False, and nothing changed, when they do not fit beside
  // `reserve` blocks that stay free or idle, or when no such snapshots are kept.
  bool adopt(uint64_t salt, std::span<const int32_t> tokens, const SnapshotInfo& info, int64_t reserve,
             FunctionRef<void(std::span<const BlockId>, std::span<const BlockId>)> fill);

  int64_t available_blocks() const { return pool_.free() + pool_.idle(); }  // all of them can be had
  int64_t held_blocks() const { return pool_.size() - available_blocks(); }
  int64_t cached_snapshots() const { return index_.snapshots(); }
  int free_state_slots() const { return static_cast<int>(free_slots_.size()); }
  // Forgets all prefixes; running sequences keep their blocks (PrefixIndex::clear).
  void clear_cache() { index_.clear(); }
  void check_integrity() const;
  // PrefixIndex::check_part, and the state slots as a whole.
  bool check_part(int64_t blocks);

 private:
  friend struct CacheFaults;  // of tests
  void check_state_slots() const;
  int64_t snapshot_blocks(SnapshotKind kind) const;
  std::optional<PrefixHit> known_prefix(uint64_t salt, std::span<const int32_t> known, int64_t logits_from);
  std::optional<Admitted> admit_from(const PrefixHit* hit, int64_t tokens, int64_t reserve, int64_t for_restore);
  // `count` blocks more at the end of a list; false and nothing changed when there is no room.
  bool take(std::vector<BlockId>& list, int64_t count);

  CacheGeometry geometry_;
  const SnapshotRule& rule_;
  BlockPool pool_;
  PrefixIndex index_;
  std::vector<int> free_slots_;
};

}  // namespace deepinfer
