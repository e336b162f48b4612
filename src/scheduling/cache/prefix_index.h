// PrefixIndex: which prefixes of earlier sequences can be gone on from.  A tree of blocks of tokens; a node may carry a
// snapshot of the windows at its end.  A hit needs a snapshot that the model's rule accepts: blocks alone are no hit.
// Used by CacheCoordinator.
//
// Identity of a node is its chain key: a 128-bit hash of the salt and all tokens up to its end.  Keys find, tokens
// decide: a node's own tokens are compared at every step of a match, so a collision costs time and never an answer.
//
// A block is in the index only as long as a snapshot at its end or further down needs it.  So every idle block can be
// had by evicting snapshots, and no block stays that no hit could use.  What the index forgets while somebody holds it
// stays with its holders.
//
// Eviction is greedy-dual: when a snapshot is used, its priority becomes
//     (priority of the last one evicted) + (tokens to compute again without it) / (blocks it would free);
// the lowest goes first, with the blocks that only it needed.  Both terms are those of the moment of the use.
// Snapshots that somebody holds are passed over as long as others can make the room.
//
// Costs: match and publish O(tokens), one hash for each block of them; eviction O(log snapshots + blocks freed).
// Allocates a hit's lists, and a snapshot's list of blocks where its node never had one of that length; all else when
// constructed: for each block of the pool its tokens and about 150 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/chain_hash.h"
#include "scheduling/cache/eviction_order.h"
#include "scheduling/cache/index_recount.h"
#include "scheduling/cache/prefix_tree.h"
#include "scheduling/cache/snapshot.h"

namespace deepinfer {

struct PrefixHit {
  SnapshotInfo snapshot;
  ChainKey key;                 // of the prefix
  std::vector<BlockId> blocks;  // position / tokens_per_block of them, from the first
  std::vector<BlockId> snapshot_blocks;
};

class PrefixIndex {
 public:
  // The pool outlives the index.
  PrefixIndex(BlockPool& pool, int64_t tokens_per_block, ChainHash hash = chain_hash);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The longest prefix of `tokens`, at most `most` tokens, with a snapshot that `usable` accepts; a full snapshot is
  // also good where `usable` accepts an early one.  Counts as a use for eviction.  Holds nothing: the caller holds the
  // blocks before anything else happens.
  std::optional<PrefixHit> match(uint64_t salt, std::span<const int32_t> tokens, int64_t most,
                                 FunctionRef<bool(const SnapshotInfo&)> usable);

  // Tokens of what match() would give; no use.
  int64_t usable_prefix(uint64_t salt, std::span<const int32_t> tokens, int64_t most,
                        FunctionRef<bool(const SnapshotInfo&)> usable) const;

  // Makes a prefix known: tokens up to info.position (a block boundary), one block for each, and a snapshot; the caller
  // holds them all.  Blocks that the index has already under the same tokens stay as they are; the given twins are not
  // taken.  A node keeps one snapshot, the one that serves more: a full one rather than an early one, then the smaller
  // exact_from, then the smaller draft_context_from, then the first.  Counts as a use for eviction.
  // Returns whether the snapshot was taken; if not, the caller is still the only one who has its blocks.
  bool publish(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
               const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks);

  // Evicts until the pool has `blocks` free ones.  False, and nothing evicted, when free and idle blocks together are
  // fewer.
  bool make_room(int64_t blocks);

  // Forgets everything (the weights changed, an operator's flush).  What a sequence computed before and publishes
  // afterwards is known again: the caller sees to it that there is none when that would be wrong.
  void clear();

  int64_t nodes() const { return tree_.size(); }
  int64_t snapshots() const { return order_.size(); }
  // Aborts unless the tree, the pool's flags and the eviction order agree.  O(blocks of the pool).
  void check_integrity() const;
  // The same and BlockPool::check_block a part at a time, whatever happens between two parts: looks at `blocks` more of
  // a pass, which looks at each block twice.  True when it ends the pass.
  bool check_part(int64_t blocks) { return check_part(blocks, recount_); }

 private:
  friend struct CacheFaults;  // of tests
  struct Snapshot {
    SnapshotInfo info;
    std::vector<BlockId> blocks;
  };
  Snapshot& at(BlockId node) { return snapshots_[static_cast<size_t>(node)]; }
  const Snapshot& at(BlockId node) const { return snapshots_[static_cast<size_t>(node)]; }
  bool has_snapshot(BlockId node) const { return order_.contains(node); }
  // The node of the longest usable prefix; kNone: there is none.
  BlockId find_usable(uint64_t salt, std::span<const int32_t> tokens, int64_t most,
                      FunctionRef<bool(const SnapshotInfo&)> usable) const;
  std::span<const int32_t> block_of(std::span<const int32_t> tokens, int64_t number) const;
  // From `node` (kNone included) upwards, the first with a snapshot; kNone when there is none.
  BlockId with_snapshot(BlockId node) const;
  void count_use(BlockId node);
  double worth(BlockId node) const;
  bool held(const Snapshot& snapshot) const;
  void drop_snapshot(BlockId node);
  void evict_first();
  // Tells the recount that a node, or the blocks of its snapshot, came (1) or went (-1).
  void recount_node(BlockId node, int by);
  void recount_snapshot(BlockId node, int by);
  bool check_part(int64_t blocks, IndexRecount& recount) const;
  void check_and_count(BlockId node, IndexRecount& recount) const;
  void check_counts(BlockId block, const IndexRecount::Counts& counts) const;

  BlockPool& pool_;
  ChainHash hash_;
  int64_t tokens_per_block_;
  PrefixTree tree_;
  EvictionOrder order_;                                        // has the nodes with a snapshot
  std::vector<Snapshot> snapshots_;                            // [blocks of the pool], by node
  std::vector<std::pair<BlockId, EvictionRank>> passed_over_;  // of make_room()
  double inflation_ = 0;                                       // the highest priority evicted so far
  uint64_t uses_ = 0;
  IndexRecount recount_;
};

}  // namespace deepinfer
