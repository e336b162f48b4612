// PrefixFacts: what the prefix index has to say, worked out from nothing but a list of published facts.  Every question
// goes through the whole list; blocks that are needed are the prefixes of facts.  The oracle of
// prefix_index_property_test.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "scheduling/cache/prefix_index.h"

namespace deepinfer {

class PrefixFacts {
 public:
  using Tokens = std::vector<int32_t>;
  using Prefix = std::pair<uint64_t, Tokens>;  // salt and tokens, whole blocks
  struct Fact {
    SnapshotInfo info;
    std::vector<BlockId> blocks;  // of the snapshot
    double priority = 0;
    uint64_t use = 0;
  };

  PrefixFacts(int64_t pool_blocks, int64_t tokens_per_block) : size_(pool_blocks), block_(tokens_per_block) {}

  template <typename Usable>
  std::optional<PrefixHit> match(uint64_t salt, const Tokens& tokens, int64_t most, const Usable& usable) {
    for (int64_t n = std::min<int64_t>(most, tokens.size()) / block_; n > 0; --n) {
      const Prefix prefix = cut(salt, tokens, n);
      const auto fact = facts_.find(prefix);
      if (fact == facts_.end()) continue;
      SnapshotInfo early = fact->second.info;
      early.kind = SnapshotKind::kEarly;
      if (!usable(fact->second.info) && !(fact->second.info.kind == SnapshotKind::kFull && usable(early))) continue;
      count_use(prefix);
      PrefixHit hit{.snapshot = fact->second.info, .key = {}, .blocks = {}, .snapshot_blocks = fact->second.blocks};
      for (int64_t i = 1; i <= n; ++i) hit.blocks.push_back(blocks_.at(cut(salt, tokens, i)));
      return hit;
    }
    return std::nullopt;
  }

  bool publish(uint64_t salt, const Tokens& tokens, const std::vector<BlockId>& blocks, const SnapshotInfo& info,
               const std::vector<BlockId>& snapshot_blocks) {
    const int64_t n = info.position / block_;
    for (int64_t i = 0; i < n; ++i) blocks_.emplace(cut(salt, tokens, i + 1), blocks[static_cast<size_t>(i)]);
    const Prefix prefix = cut(salt, tokens, n);
    const auto [fact, is_new] = facts_.try_emplace(prefix, Fact{info, snapshot_blocks});
    bool taken = is_new;
    if (!is_new && better(info, fact->second.info)) {
      fact->second = {info, snapshot_blocks};
      taken = true;
    }
    count_use(prefix);
    return taken;
  }

  bool make_room(int64_t wanted) {
    if (free() + idle() < wanted) return false;
    std::vector<Prefix> order;
    for (const auto& [prefix, fact] : facts_) order.push_back(prefix);
    std::sort(order.begin(), order.end(), [&](const Prefix& a, const Prefix& b) {
      const auto rank = [&](const Prefix& p) {
        const Fact& fact = facts_.at(p);
        return std::tuple(held(fact), fact.priority, fact.use);
      };
      return rank(a) < rank(b);
    });
    for (auto prefix = order.begin(); free() < wanted; ++prefix) {
      const Fact& fact = facts_.at(*prefix);
      if (held(fact)) {
        ++evicted_held;
      } else {
        inflation_ = std::max(inflation_, fact.priority);
        ++evicted;
      }
      facts_.erase(*prefix);
      forget_what_nobody_needs();
    }
    return true;
  }

  void clear() {
    facts_.clear();
    blocks_.clear();
  }

  // Kept by the test: who holds what.
  std::map<BlockId, int64_t> holders;

  bool is_held(BlockId block) const {
    const auto entry = holders.find(block);
    return entry != holders.end() && entry->second > 0;
  }
  std::vector<bool> cached() const {
    std::vector<bool> is_cached(static_cast<size_t>(size_));
    for (const auto& [prefix, block] : blocks_) is_cached[static_cast<size_t>(block)] = true;
    for (const auto& [prefix, fact] : facts_)
      for (const BlockId block : fact.blocks) is_cached[static_cast<size_t>(block)] = true;
    return is_cached;
  }
  int64_t free() const { return count(false); }
  int64_t idle() const { return count(true); }
  int64_t nodes() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t snapshots() const { return static_cast<int64_t>(facts_.size()); }

  int64_t evicted = 0, evicted_held = 0;

 private:
  Prefix cut(uint64_t salt, const Tokens& tokens, int64_t blocks) const {
    return {salt, Tokens(tokens.begin(), tokens.begin() + blocks * block_)};
  }
  static bool begins_with(const Prefix& longer, const Prefix& shorter) {
    return longer.first == shorter.first && longer.second.size() >= shorter.second.size() &&
           std::equal(shorter.second.begin(), shorter.second.end(), longer.second.begin());
  }
  static bool better(const SnapshotInfo& a, const SnapshotInfo& b) {
    if (a.kind != b.kind) return a.kind == SnapshotKind::kFull;
    if (a.exact_from != b.exact_from) return a.exact_from < b.exact_from;
    return a.draft_context_from < b.draft_context_from;
  }
  bool held(const Fact& fact) const {
    return std::any_of(fact.blocks.begin(), fact.blocks.end(), [&](BlockId block) { return is_held(block); });
  }
  int64_t count(bool in_cache) const {
    const std::vector<bool> is_cached = cached();
    int64_t found = 0;
    for (BlockId block = 0; block < size_; ++block)
      found += !is_held(block) && is_cached[static_cast<size_t>(block)] == in_cache;
    return found;
  }
  void count_use(const Prefix& prefix) {
    int64_t start = 0;  // of a sequence that has to go without
    for (const auto& [other, fact] : facts_)
      if (other != prefix && begins_with(prefix, other)) start = std::max<int64_t>(start, other.second.size());
    int64_t freed = static_cast<int64_t>(facts_.at(prefix).blocks.size());
    for (const auto& [node, block] : blocks_) {
      if (!begins_with(prefix, node)) continue;
      bool needed = false;
      for (const auto& [other, fact] : facts_) needed = needed || (other != prefix && begins_with(other, node));
      freed += !needed;
    }
    Fact& fact = facts_.at(prefix);
    fact.priority = inflation_ + static_cast<double>(static_cast<int64_t>(prefix.second.size()) - start) /
                                     static_cast<double>(std::max<int64_t>(freed, 1));
    fact.use = ++uses_;
  }
  void forget_what_nobody_needs() {
    std::erase_if(blocks_, [&](const auto& node) {
      return std::none_of(facts_.begin(), facts_.end(),
                          [&](const auto& fact) { return begins_with(fact.first, node.first); });
    });
  }

  int64_t size_, block_;
  std::map<Prefix, Fact> facts_;
  std::map<Prefix, BlockId> blocks_;  // of the prefixes of facts: the first that was published
  double inflation_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace deepinfer
