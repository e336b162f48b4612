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

bool PrefixTree::in_its_chain(BlockId node) const {
  BlockId other = chain(key(node));
  for (int64_t steps = 0; other != node && other != kNone && steps < size_; ++steps) other = at(other).next;
  return other == node;
}

void PrefixTree::check_chain(size_t number) const {
  int64_t length = 0;
  for (BlockId node = table_[number]; node != kNone; node = at(node).next) {
    DI_CHECK(node >= 0 && static_cast<size_t>(node) < nodes_.size(), "node " + std::to_string(node));
    DI_CHECK(contains(node), "node " + std::to_string(node) + " is in the table only");
    DI_CHECK((key(node).low & (table_.size() - 1)) == number,
             "node " + std::to_string(node) + " is in another's chain");
    DI_CHECK(++length <= size_, "a chain of the table has a loop");
  }
}

void PrefixTree::check_node(BlockId node) const {
  // The table has fewer than two chains for each node.
  for (size_t number = static_cast<size_t>(node); number < table_.size(); number += nodes_.size()) check_chain(number);
  if (!contains(node)) {
    DI_CHECK(children(node) == 0, "node " + std::to_string(node) + " is not there and has children");
    return;
  }
  DI_CHECK(in_its_chain(node), "node " + std::to_string(node) + " is not in the table");
  if (parent(node) == kNone) {
    DI_CHECK(depth(node) == 1, "node " + std::to_string(node) + " has no parent");
    return;
  }
  DI_CHECK(parent(node) >= 0 && static_cast<size_t>(parent(node)) < nodes_.size(),
           "node " + std::to_string(node) + " below " + std::to_string(parent(node)));
  const Node& above = at(parent(node));
  DI_CHECK(above.depth == depth(node) - 1 && above.depth > 0, "node " + std::to_string(node));
  DI_CHECK(above.salt == salt(node), "node " + std::to_string(node) + " has a salt of its own");
}

}  // namespace deepinfer
