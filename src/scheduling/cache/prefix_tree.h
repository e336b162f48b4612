// PrefixTree: blocks of tokens, each below the one before it.  Found by chain key, decided by tokens.  Used by
// PrefixIndex only, which knows why a node is there.
//
// A node goes by the name of the cache block that it stands for.  All memory is allocated by the constructor: the
// tokens of every block (untouched until used) and a table of chains of nodes with equal keys.  Nothing recurses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scheduling/cache/block_pool.h"
#include "scheduling/cache/chain_hash.h"

namespace deepinfer {

class PrefixTree {
 public:
  static constexpr BlockId kNone = -1;

  PrefixTree(int64_t blocks, int64_t tokens_per_block);

  int64_t size() const { return size_; }
  bool contains(BlockId node) const { return at(node).depth > 0; }
  BlockId parent(BlockId node) const { return at(node).parent; }  // kNone: its block is the first of a sequence
  int64_t depth(BlockId node) const { return at(node).depth; }    // blocks up to its end, itself included
  int64_t children(BlockId node) const { return at(node).children; }
  ChainKey key(BlockId node) const { return at(node).key; }
  uint64_t salt(BlockId node) const { return at(node).salt; }
  std::span<const int32_t> tokens(BlockId node) const;

  // The node with these tokens below `parent`, or, with kNone, first of a sequence with this salt; kNone when there is
  // none.  O(tokens) and the nodes whose keys share a place in the table.
  BlockId find(uint64_t salt, BlockId parent, ChainKey key, std::span<const int32_t> tokens) const;
  // What find() has not found.  Copies the tokens.
  void add(BlockId node, uint64_t salt, BlockId parent, ChainKey key, std::span<const int32_t> tokens);
  // A node without children.
  void remove(BlockId node);

  // Aborts unless the node, where it is one, is found under its key, below a parent that is there, and the chains of
  // the same number have nodes of theirs only.  Counts are not looked at (IndexRecount).  O(nodes of these chains).
  void check_node(BlockId node) const;

 private:
  friend struct CacheFaults;  // of tests
  bool in_its_chain(BlockId node) const;
  void check_chain(size_t number) const;
  struct Node {
    ChainKey key;
    uint64_t salt = 0;
    BlockId parent = kNone;
    BlockId next = kNone;  // of the chain in the table
    int32_t children = 0;
    int32_t depth = 0;  // 0: not in the tree
  };
  const Node& at(BlockId node) const { return nodes_[static_cast<size_t>(node)]; }
  Node& at(BlockId node) { return nodes_[static_cast<size_t>(node)]; }
  BlockId& chain(ChainKey key) { return table_[key.low & (table_.size() - 1)]; }
  BlockId chain(ChainKey key) const { return table_[key.low & (table_.size() - 1)]; }
  int32_t* tokens_at(BlockId node) const { return tokens_.get() + static_cast<size_t>(node) * tokens_per_block_; }

  size_t tokens_per_block_;
  std::vector<Node> nodes_;            // [blocks]
  std::unique_ptr<int32_t[]> tokens_;  // [blocks, tokens_per_block]
  std::vector<BlockId> table_;         // first node of each chain; a power of two
  int64_t size_ = 0;
};

}  // namespace deepinfer
