#include "scheduling/cache/prefix_index.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "base/check.h"

namespace deepinfer {
namespace {

bool serves(const SnapshotInfo& snapshot, FunctionRef<bool(const SnapshotInfo&)> usable) {
  if (usable(snapshot)) return true;
  if (snapshot.kind != SnapshotKind::kFull) return false;
  SnapshotInfo early_part = snapshot;
  early_part.kind = SnapshotKind::kEarly;
  return usable(early_part);
}

bool serves_more(const SnapshotInfo& a, const SnapshotInfo& b) {
  const auto needs = [](const SnapshotInfo& info) {
    return std::tuple(info.kind != SnapshotKind::kFull, info.exact_from, info.draft_context_from);
  };
  return needs(a) < needs(b);
}

}  // namespace

PrefixIndex::PrefixIndex(BlockPool& pool, int64_t tokens_per_block, ChainHash hash)
    : pool_(pool),
      hash_(hash),
      tokens_per_block_(tokens_per_block),
      tree_(pool.size(), tokens_per_block),
      order_(pool.size()),
      snapshots_(static_cast<size_t>(pool.size())),
      recount_(pool.size()) {
  DI_CHECK(tokens_per_block > 0, std::to_string(tokens_per_block) + " tokens in a block");
}

std::span<const int32_t> PrefixIndex::block_of(std::span<const int32_t> tokens, int64_t number) const {
  return tokens.subspan(static_cast<size_t>(number * tokens_per_block_), static_cast<size_t>(tokens_per_block_));
}

BlockId PrefixIndex::find_usable(uint64_t salt, std::span<const int32_t> tokens, int64_t most,
                                 FunctionRef<bool(const SnapshotInfo&)> usable) const {
  const int64_t blocks = std::min(most, static_cast<int64_t>(tokens.size())) / tokens_per_block_;
  BlockId node = PrefixTree::kNone;
  ChainKey key = chain_root(salt);
  for (int64_t i = 0; i < blocks; ++i) {
    key = hash_(key, block_of(tokens, i));
    const BlockId child = tree_.find(salt, node, key, block_of(tokens, i));
    if (child == PrefixTree::kNone) break;
    node = child;
  }
  node = with_snapshot(node);
  while (node != PrefixTree::kNone && !serves(at(node).info, usable)) node = with_snapshot(tree_.parent(node));
  return node;
}

int64_t PrefixIndex::usable_prefix(uint64_t salt, std::span<const int32_t> tokens, int64_t most,
                                   FunctionRef<bool(const SnapshotInfo&)> usable) const {
  const BlockId node = find_usable(salt, tokens, most, usable);
  return node == PrefixTree::kNone ? 0 : tree_.depth(node) * tokens_per_block_;
}

std::optional<PrefixHit> PrefixIndex::match(uint64_t salt, std::span<const int32_t> tokens, int64_t most,
                                            FunctionRef<bool(const SnapshotInfo&)> usable) {
  BlockId node = find_usable(salt, tokens, most, usable);
  if (node == PrefixTree::kNone) return std::nullopt;
  count_use(node);
  PrefixHit hit{.snapshot = at(node).info, .key = tree_.key(node), .blocks = {}, .snapshot_blocks = at(node).blocks};
  hit.blocks.resize(static_cast<size_t>(tree_.depth(node)));
  for (auto block = hit.blocks.rbegin(); block != hit.blocks.rend(); ++block) {
    *block = node;
    node = tree_.parent(node);
  }
  return hit;
}

bool PrefixIndex::publish(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                          const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) {
  const int64_t count = info.position / tokens_per_block_;
  DI_CHECK(count > 0 && info.position % tokens_per_block_ == 0, "snapshot at " + std::to_string(info.position));
  DI_CHECK(info.position <= static_cast<int64_t>(tokens.size()) && count <= static_cast<int64_t>(blocks.size()),
           "snapshot at " + std::to_string(info.position) + ", " + std::to_string(tokens.size()) + " tokens, " +
               std::to_string(blocks.size()) + " blocks");
  BlockId node = PrefixTree::kNone;
  ChainKey key = chain_root(salt);
  for (int64_t i = 0; i < count; ++i) {
    key = hash_(key, block_of(tokens, i));
    BlockId child = tree_.find(salt, node, key, block_of(tokens, i));
    if (child == PrefixTree::kNone) {
      child = blocks[static_cast<size_t>(i)];
      pool_.cache(child);
      tree_.add(child, salt, node, key, block_of(tokens, i));
      recount_node(child, 1);
    }
    node = child;
  }

  Snapshot& snapshot = at(node);
  const bool taken = !has_snapshot(node) || serves_more(info, snapshot.info);
  if (taken) {
    drop_snapshot(node);
    snapshot.info = info;
    snapshot.blocks.assign(snapshot_blocks.begin(), snapshot_blocks.end());
    for (const BlockId block : snapshot.blocks) pool_.cache(block);
    recount_snapshot(node, 1);
  }
  count_use(node);
  return taken;
}

BlockId PrefixIndex::with_snapshot(BlockId node) const {
  while (node != PrefixTree::kNone && !has_snapshot(node)) node = tree_.parent(node);
  return node;
}

void PrefixIndex::count_use(BlockId node) {
  order_.set(node, {inflation_ + worth(node), ++uses_});
}

// Tokens that a sequence would have to compute again without this snapshot, for each block that its eviction frees.
// A block that somebody holds counts as freed: it will be.
double PrefixIndex::worth(BlockId node) const {
  const BlockId kept = with_snapshot(tree_.parent(node));  // what the sequence would start from instead
  const int64_t lost_blocks = tree_.depth(node) - (kept == PrefixTree::kNone ? 0 : tree_.depth(kept));
  int64_t freed = static_cast<int64_t>(at(node).blocks.size());
  if (tree_.children(node) == 0) {
    BlockId needed_by_others = tree_.parent(node);
    while (needed_by_others != kept && tree_.children(needed_by_others) == 1) {
      needed_by_others = tree_.parent(needed_by_others);
    }
    freed += tree_.depth(node) - (needed_by_others == PrefixTree::kNone ? 0 : tree_.depth(needed_by_others));
  }
  return static_cast<double>(lost_blocks * tokens_per_block_) / static_cast<double>(std::max<int64_t>(freed, 1));
}

bool PrefixIndex::held(const Snapshot& snapshot) const {
  return std::any_of(snapshot.blocks.begin(), snapshot.blocks.end(),
                     [this](BlockId block) { return pool_.holders(block) > 0; });
}

void PrefixIndex::drop_snapshot(BlockId node) {
  recount_snapshot(node, -1);
  for (const BlockId block : at(node).blocks) pool_.uncache(block);
  at(node).blocks.clear();
}

// The first snapshot of the order goes, and upwards the nodes that were there for it alone.
void PrefixIndex::evict_first() {
  BlockId node = order_.first();
  order_.remove(node);
  drop_snapshot(node);
  while (node != PrefixTree::kNone && tree_.children(node) == 0 && !has_snapshot(node)) {
    const BlockId parent = tree_.parent(node);
    recount_node(node, -1);
    tree_.remove(node);
    pool_.uncache(node);
    node = parent;
  }
}

bool PrefixIndex::make_room(int64_t blocks) {
  if (pool_.free() + pool_.idle() < blocks) return false;
  // A node whose snapshot is passed over must keep its place in the order: has_snapshot() asks it.  So it moves to the
  // end.
  passed_over_.clear();
  constexpr double kEnd = std::numeric_limits<double>::infinity();
  while (pool_.free() < blocks) {
    DI_CHECK(!order_.empty(), "idle blocks that no snapshot needs");
    const EvictionRank rank = order_.first_rank();
    const BlockId node = order_.first();
    if (rank.priority < kEnd && held(at(node))) {
      passed_over_.emplace_back(node, rank);
      order_.set(node, {kEnd, passed_over_.size()});
      continue;
    }
    if (rank.priority < kEnd) inflation_ = std::max(inflation_, rank.priority);
    evict_first();
  }
  for (const auto& [node, rank] : passed_over_) {
    if (tree_.contains(node) && has_snapshot(node)) order_.set(node, rank);
  }
  return true;
}

void PrefixIndex::clear() {
  while (!order_.empty()) evict_first();
}

void PrefixIndex::recount_node(BlockId node, int by) {
  if (recount_.reached(node)) recount_.count_node(node, tree_.parent(node), by);
}

void PrefixIndex::recount_snapshot(BlockId node, int by) {
  if (!recount_.reached(node)) return;
  for (const BlockId block : at(node).blocks) recount_.count_snapshot_block(block, by);
}

void PrefixIndex::check_integrity() const {
  IndexRecount recount(pool_.size());
  check_part(2 * pool_.size(), recount);
}

bool PrefixIndex::check_part(int64_t blocks, IndexRecount& recount) const {
  for (; recount.next() < recount.blocks() && !recount.comparing(); --blocks) {
    if (blocks == 0) return false;
    check_and_count(static_cast<BlockId>(recount.next()), recount);
    recount.looked_at_next();
  }
  if (!recount.comparing()) recount.start_comparing();
  for (; recount.next() < recount.blocks(); --blocks) {
    if (blocks == 0) return false;
    check_counts(static_cast<BlockId>(recount.next()), recount.take_counts());
    recount.looked_at_next();
  }
  DI_CHECK(recount.nodes() == tree_.size(),
           std::to_string(recount.nodes()) + " nodes, counted " + std::to_string(tree_.size()));
  recount.start_again();
  return true;
}

void PrefixIndex::check_counts(BlockId block, const IndexRecount::Counts& counts) const {
  DI_CHECK(counts.children == tree_.children(block), "node " + std::to_string(block) + " has " +
                                                         std::to_string(counts.children) + " children, counted " +
                                                         std::to_string(tree_.children(block)));
  DI_CHECK(counts.uses == (pool_.cached(block) ? 1 : 0), "block " + std::to_string(block) + " is in the index " +
                                                             std::to_string(counts.uses) + " times, cached " +
                                                             std::to_string(pool_.cached(block)));
}

void PrefixIndex::check_and_count(BlockId node, IndexRecount& recount) const {
  pool_.check_block(node);
  tree_.check_node(node);
  order_.check_id(node);
  if (!tree_.contains(node)) {
    DI_CHECK(!has_snapshot(node), "a snapshot without its node " + std::to_string(node));
    return;
  }
  DI_CHECK(pool_.cached(node), "block " + std::to_string(node) + " is in the index and not cached");
  recount.count_node(node, tree_.parent(node), 1);
  if (!has_snapshot(node)) {
    DI_CHECK(tree_.children(node) > 0, "nobody needs node " + std::to_string(node));
    return;
  }
  DI_CHECK(at(node).info.position == tree_.depth(node) * tokens_per_block_,
           "node " + std::to_string(node) + " has a snapshot of " + std::to_string(at(node).info.position));
  for (const BlockId block : at(node).blocks) {
    DI_CHECK(pool_.cached(block), "block " + std::to_string(block) + " is in the index and not cached");
    recount.count_snapshot_block(block, 1);
  }
}

}  // namespace deepinfer
