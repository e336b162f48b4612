// PrefixIndex: which prefixes of earlier sequences can be gone on from.  A tree of blocks of tokens; a node may carry
// snapshots of the windows at its end.  A hit needs a snapshot that the model's rule accepts: blocks alone are no hit.
//
// Identity of a node is its chain key: a 128-bit hash of the salt and all tokens up to its end.  Keys find, tokens
// decide: a node's own tokens are compared at every step of a match, so a collision costs time and never an answer.
// Eviction: greedy-dual by recomputed tokens per freed block; snapshots go first, then the blocks only they needed.
// Costs: match O(tokens), publish O(tokens), eviction O(log snapshots + blocks freed).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/snapshot.h"

namespace deepinfer {

struct ChainKey {
  uint64_t low = 0, high = 0;
  friend bool operator==(const ChainKey&, const ChainKey&) = default;
};

// The key of a block: that of its parent (the first: of the salt) and its tokens.
using ChainHash = ChainKey (*)(ChainKey parent, std::span<const int32_t> tokens);
ChainKey chain_hash(ChainKey parent, std::span<const int32_t> tokens);  // XXH3, 128 bits
ChainKey chain_root(uint64_t salt);

struct PrefixHit {
  SnapshotInfo snapshot;
  ChainKey key;                          // of the node
  std::vector<BlockId> blocks;           // position / tokens_per_block of them, from the first
  std::vector<BlockId> snapshot_blocks;
};

class PrefixIndex {
 public:
  PrefixIndex(BlockPool& pool, int64_t tokens_per_block, ChainHash hash = chain_hash);
  ~PrefixIndex();

  // The longest prefix of `tokens`, at most `most` tokens, with a snapshot that `usable` accepts.  Counts as a use for
  // eviction.  Holds nothing: the caller holds the blocks before anything else happens.
  std::optional<PrefixHit> match(uint64_t salt, std::span<const int32_t> tokens, int64_t most,
                                 FunctionRef<bool(const SnapshotInfo&)> usable);

  // Makes a prefix known: tokens up to info.position (a block boundary), one block for each, and a snapshot.  Blocks
  // that the index has already under the same tokens stay as they are; the given twins are not taken.  A snapshot of
  // the same kind at the same place replaces one only if it serves more (a smaller exact_from).
  // Returns whether the snapshot was taken; if not, the caller still owns its blocks.
  bool publish(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks, const SnapshotInfo& info,
               std::span<const BlockId> snapshot_blocks);

  // Evicts until the pool has `blocks` free ones or nothing idle is left; returns whether it has.
  // on_evict sees every snapshot before its blocks go (a lower tier may want it).
  bool make_room(int64_t blocks);

  // Forgets everything that nobody holds (weights changed, an operator's flush).
  void clear();

  int64_t nodes() const;
  int64_t snapshots() const;
  // Aborts unless the tree, the pool's flags and the eviction order agree.
  void check_integrity() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
