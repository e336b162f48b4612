// IndexRecount: counts again what the prefix index keeps counts of, a part at a time: its nodes, the children of each,
// and who in the index uses each block.  PrefixIndex owns one and tells it what changes, so that parts of one pass may
// be taken at different times.
//
// A pass goes through all blocks twice.  In the first half each node that is reached is counted; in the second half the
// counts of each block are compared, and taken back to 0.  What changes is counted at once where its node has been
// reached, and not where the count of its block has been compared already.  Every call is O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "scheduling/cache/block_pool.h"

namespace deepinfer {

class IndexRecount {
 public:
  explicit IndexRecount(int64_t blocks) : counts_(static_cast<size_t>(blocks)) {}

  int64_t blocks() const { return static_cast<int64_t>(counts_.size()); }
  bool comparing() const { return comparing_; }
  // The block to look at; blocks() at the end of a half.
  int64_t next() const { return next_; }
  void looked_at_next() { ++next_; }
  void start_comparing() {
    comparing_ = true;
    next_ = 0;
  }
  void start_again() {
    comparing_ = false;
    next_ = 0;
    nodes_ = 0;
  }

  // A node (parent -1: it has none), or a block of a node's snapshot, is there; by = -1: no longer.  The
  // half that counts calls this for `node` = next(), and for all changes of what it has reached.
  void count_node(BlockId node, BlockId parent, int by) {
    nodes_ += by;
    if (pending(node)) counts_[static_cast<size_t>(node)].uses += by;
    if (parent >= 0 && pending(parent)) counts_[static_cast<size_t>(parent)].children += by;
  }
  void count_snapshot_block(BlockId block, int by) {
    if (pending(block)) counts_[static_cast<size_t>(block)].uses += by;
  }
  // Whether what becomes of this node must be told.
  bool reached(BlockId node) const { return comparing_ || node < next_; }

  struct Counts {
    int32_t children = 0;  // of the node
    int32_t uses = 0;      // of the block: as a node, or in a snapshot
  };
  // While comparing: those of the next block, which are 0 from now on.
  Counts take_counts() { return std::exchange(counts_[static_cast<size_t>(next_)], {}); }
  int64_t nodes() const { return nodes_; }

 private:
  bool pending(BlockId block) const { return !comparing_ || block >= next_; }

  std::vector<Counts> counts_;
  int64_t next_ = 0, nodes_ = 0;
  bool comparing_ = false;
};

}  // namespace deepinfer
