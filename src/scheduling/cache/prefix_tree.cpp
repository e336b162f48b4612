#include "scheduling/cache/prefix_tree.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace deepinfer {

PrefixTree::PrefixTree(int64_t blocks, int64_t tokens_per_block)
    : tokens_per_block_(static_cast<size_t>(tokens_per_block)),
      nodes_(static_cast<size_t>(blocks)),
      tokens_(std::make_unique_for_overwrite<int32_t[]>(nodes_.size() * tokens_per_block_)),
      table_(std::bit_ceil(std::max<size_t>(nodes_.size(), 1)), kNone) {}

std::span<const int32_t> PrefixTree::tokens(BlockId node) const {
  return {tokens_at(node), tokens_per_block_};
}

BlockId PrefixTree::find(uint64_t salt, BlockId parent, ChainKey key, std::span<const int32_t> tokens) const {
  BlockId node = chain(key);
  for (; node != kNone; node = at(node).next) {
    const Node& candidate = at(node);
    if (candidate.key == key && candidate.parent == parent && candidate.salt == salt &&
        std::equal(tokens.begin(), tokens.end(), tokens_at(node))) {
      break;
    }
  }
  return node;
}

void PrefixTree::add(BlockId node, uint64_t salt, BlockId parent, ChainKey key, std::span<const int32_t> tokens) {
  DI_CHECK(!contains(node), "node " + std::to_string(node));
  DI_CHECK(tokens.size() == tokens_per_block_, std::to_string(tokens.size()) + " tokens");
  int32_t depth = 1;
  if (parent != kNone) {
    depth += at(parent).depth;
    ++at(parent).children;
  }
  at(node) = {.key = key, .salt = salt, .parent = parent, .next = chain(key), .children = 0, .depth = depth};
  chain(key) = node;
  std::copy(tokens.begin(), tokens.end(), tokens_at(node));
  ++size_;
}

void PrefixTree::remove(BlockId node) {
  DI_CHECK(contains(node) && children(node) == 0, "node " + std::to_string(node));
  BlockId* link = &chain(key(node));
  while (*link != node) link = &at(*link).next;
  *link = at(node).next;
  if (parent(node) != kNone) --at(parent(node)).children;
  at(node) = {};
  --size_;
}

void PrefixTree::check_integrity() const {
  int64_t in_table = 0;
  for (size_t i = 0; i < table_.size(); ++i) {
    for (BlockId node = table_[i]; node != kNone; node = at(node).next) {
      ++in_table;
      DI_CHECK(contains(node), "node " + std::to_string(node) + " is in the table only");
      DI_CHECK((key(node).low & (table_.size() - 1)) == i, "node " + std::to_string(node) + " is in another's chain");
      DI_CHECK(in_table <= size_, "a chain of the table has a loop");
    }
  }
  DI_CHECK(in_table == size_, std::to_string(size_) + " nodes, in the table " + std::to_string(in_table));
  std::vector<int32_t> children(nodes_.size());
  int64_t there = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.depth == 0) continue;
    ++there;
    if (node.parent == kNone) {
      DI_CHECK(node.depth == 1, "node " + std::to_string(i) + " has no parent");
      continue;
    }
    const Node& parent = at(node.parent);
    DI_CHECK(parent.depth == node.depth - 1 && parent.depth > 0, "node " + std::to_string(i));
    DI_CHECK(parent.salt == node.salt, "node " + std::to_string(i) + " has a salt of its own");
    ++children[static_cast<size_t>(node.parent)];
  }
  DI_CHECK(there == size_, std::to_string(there) + " nodes, counted " + std::to_string(size_));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    DI_CHECK(children[i] == nodes_[i].children, "node " + std::to_string(i) + " has " + std::to_string(children[i]) +
                                                    " children, counted " + std::to_string(nodes_[i].children));
  }
}

}  // namespace deepinfer
