// Sequences that really write: a memory in which every block holds the name of its content.  Random admissions,
// extensions, snapshots and releases; what a hit gives must be what a fresh start would have written, what is held must
// stay as it was, and room must be found exactly when there is some.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduling/cache/cache_coordinator.h"

namespace deepinfer {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int64_t kBlock = 2;

struct TestRule : SnapshotRule {
  bool usable(const SnapshotInfo& snapshot, int64_t logits_from) const override {
    return snapshot.kind == SnapshotKind::kEarly ? logits_from >= snapshot.position + 3
                                                 : logits_from >= snapshot.exact_from;
  }
};

std::string content(uint64_t salt, const Tokens& tokens, int64_t end) {
  std::string name = std::to_string(salt);
  for (int64_t i = 0; i < end; ++i) name.append(",").append(std::to_string(tokens[static_cast<size_t>(i)]));
  return name;
}

std::string snapshot_content(uint64_t salt, const Tokens& tokens, const SnapshotInfo& info, size_t part) {
  return content(salt, tokens, info.position) + (info.kind == SnapshotKind::kFull ? " full " : " early ") +
         std::to_string(part) + " exact from " + std::to_string(info.exact_from);
}

ChainKey all_equal(ChainKey, std::span<const int32_t>) {
  return {7, 7};
}

struct Tally {
  int64_t hits = 0, early_hits = 0, fresh = 0, refused = 0, no_extension = 0, published = 0;
};

class Workload {
 public:
  Workload(const CacheGeometry& geometry, ChainHash hash, Tally& tally)
      : geometry_(geometry),
        cache_(geometry, rule_, hash),
        memory_(static_cast<size_t>(geometry.blocks)),
        tally_(tally) {}

  void step(uint64_t seed) {
    random_.seed(seed);
    switch (pick(9)) {
      case 0:
      case 1:
        admit();
        break;
      case 2:
      case 3:
        decode();
        break;
      case 4:
      case 5:
        save();
        break;
      case 6:
        finish_copies();
        break;
      default:
        if (!running_.empty()) end(static_cast<size_t>(pick(std::ssize(running_))));
        if (pick(60) == 0) cache_.clear_cache();
    }
    check();
  }

  void end_all() {
    finish_copies();
    while (!running_.empty()) end(0);
    check();
    RC_ASSERT(cache_.held_blocks() == 0);
    RC_ASSERT(cache_.free_state_slots() == geometry_.state_slots);
    cache_.clear_cache();
    RC_ASSERT(cache_.cached_snapshots() == 0);
    RC_ASSERT(cache_.available_blocks() == geometry_.blocks);
    const bool whole_pool = cache_.admit(0, {}, geometry_.blocks * kBlock, -1, false, 0).has_value();
    RC_ASSERT(whole_pool);
  }

 private:
  struct Sequence {
    int number = 0;
    uint64_t salt = 0;
    Tokens tokens;  // all of them written
    int64_t exact_from = 0;
    SequenceBlocks blocks;
  };
  // A snapshot on its way into a sequence, or out of one.
  struct Copy {
    SnapshotPlace place;
    uint64_t salt = 0;
    Tokens tokens;
    int writer = -1;  // -1: it is being read
  };

  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  std::string& at(BlockId block) { return memory_[static_cast<size_t>(block)]; }

  // Writes what is known of [from, end) as the model would: whole blocks count only.
  void write(Sequence& sequence, int64_t from) {
    const int64_t end = std::ssize(sequence.tokens);
    for (int64_t b = from / kBlock; b * kBlock < end; ++b)
      at(sequence.blocks.table()[static_cast<size_t>(b)]) =
          content(sequence.salt, sequence.tokens, std::min(end, (b + 1) * kBlock));
  }

  void admit() {
    Tokens tokens;
    if (pick(4) > 0 && !earlier_.empty()) tokens = earlier_[static_cast<size_t>(pick(std::ssize(earlier_)))];
    if (std::ssize(tokens) > 9 * kBlock) tokens.resize(static_cast<size_t>(pick(9 * kBlock)));
    for (int64_t more = pick(3 * kBlock) + 1; more > 0; --more) tokens.push_back(pick(8) == 0);
    const uint64_t salt = pick(5) == 0;
    const int64_t known = std::ssize(tokens), all = known + pick(kBlock + 1);
    const int64_t logits_from = pick(4) == 0 ? pick(known) : -1;
    const int64_t reserve = pick(3) == 0 ? pick(4) : 0;
    const int64_t available = cache_.available_blocks(), held = cache_.held_blocks();
    const int64_t need = cache_.blocks_for(all);
    const bool slots = cache_.free_state_slots() > 0;

    auto admitted = cache_.admit(salt, tokens, all, logits_from, pick(6) > 0, reserve);
    if (!admitted) {
      ++tally_.refused;
      RC_ASSERT(!slots || need + geometry_.full_snapshot_blocks > available - reserve);
      RC_ASSERT(!(slots && held == 0 && reserve == 0 && cache_.can_ever_fit(all)));
      RC_ASSERT(cache_.available_blocks() == available);
      return;
    }
    RC_ASSERT(slots && cache_.available_blocks() >= reserve);
    RC_ASSERT(std::ssize(admitted->blocks.table()) == need);
    Sequence sequence{next_++, salt, tokens, 0, std::move(admitted->blocks)};
    int64_t start = 0;
    if (admitted->restore) {
      const SnapshotInfo& info = admitted->restore->info;
      start = info.position;
      RC_ASSERT(start % kBlock == 0 && start < known && start <= (logits_from < 0 ? known : logits_from));
      ++(info.kind == SnapshotKind::kFull ? tally_.hits : tally_.early_hits);
      copies_.push_back({*std::move(admitted->restore), salt, tokens, -1});
    } else {
      ++tally_.fresh;
    }
    for (int64_t b = 0; b * kBlock < start; ++b)
      RC_ASSERT(at(sequence.blocks.table()[static_cast<size_t>(b)]) == content(salt, tokens, (b + 1) * kBlock));
    write(sequence, start);
    sequence.exact_from = std::max<int64_t>(known - pick(8), 0);
    running_.push_back(std::move(sequence));
  }

  void decode() {
    if (running_.empty()) return;
    Sequence& sequence = running_[static_cast<size_t>(pick(std::ssize(running_)))];
    const int64_t old = std::ssize(sequence.tokens), all = old + pick(2 * kBlock);
    const int64_t more = cache_.blocks_for(all) - std::ssize(sequence.blocks.table());
    const bool fits = more <= cache_.available_blocks();
    RC_ASSERT(cache_.extend(sequence.blocks, all) == fits);
    if (!fits) {
      ++tally_.no_extension;
      return;
    }
    while (std::ssize(sequence.tokens) < all) sequence.tokens.push_back(pick(8) == 0);
    write(sequence, old);
  }

  void save() {
    if (running_.empty()) return;
    const Sequence& sequence = running_[static_cast<size_t>(pick(std::ssize(running_)))];
    const int64_t blocks = std::ssize(sequence.tokens) / kBlock;
    if (blocks == 0) return;
    const SnapshotInfo info{.kind = pick(3) == 0 ? SnapshotKind::kEarly : SnapshotKind::kFull,
                            .position = (pick(2) == 0 ? blocks : pick(blocks) + 1) * kBlock,
                            .exact_from = sequence.exact_from,
                            .draft_context_from = 0};
    const int64_t size =
        info.kind == SnapshotKind::kFull ? geometry_.full_snapshot_blocks : geometry_.early_snapshot_blocks;
    const bool fits = size <= cache_.available_blocks();
    std::optional<SnapshotPlace> place = cache_.place_snapshot(info);
    RC_ASSERT(place.has_value() == fits);
    if (!place) return;
    RC_ASSERT(std::ssize(place->blocks) == size);
    for (size_t i = 0; i < place->blocks.size(); ++i)
      at(place->blocks[i]) = snapshot_content(sequence.salt, sequence.tokens, info, i);
    copies_.push_back({*std::move(place), sequence.salt, sequence.tokens, sequence.number});
  }

  void finish_copies() {
    for (Copy& copy : copies_) {
      const auto writer =
          std::find_if(running_.begin(), running_.end(), [&](const Sequence& s) { return s.number == copy.writer; });
      if (writer == running_.end()) {
        cache_.release_snapshot(std::move(copy.place));
      } else {
        cache_.publish(copy.salt, copy.tokens, writer->blocks, std::move(copy.place));
        ++tally_.published;
      }
    }
    copies_.clear();
  }

  void end(size_t i) {
    earlier_.push_back(running_[i].tokens);
    cache_.release(std::move(running_[i].blocks));
    running_.erase(running_.begin() + static_cast<int64_t>(i));
  }

  void check() {
    cache_.check_integrity();
    std::set<BlockId> held;
    std::set<int> slots;
    for (const Sequence& sequence : running_) {
      for (int64_t b = 0; b < std::ssize(sequence.blocks.table()); ++b) {
        const BlockId block = sequence.blocks.table()[static_cast<size_t>(b)];
        held.insert(block);
        if (b * kBlock < std::ssize(sequence.tokens)) {
          RC_ASSERT(at(block) == content(sequence.salt, sequence.tokens,
                                         std::min<int64_t>(std::ssize(sequence.tokens), (b + 1) * kBlock)));
        }
      }
      RC_ASSERT(slots.insert(sequence.blocks.state_slot()).second);
    }
    for (const Copy& copy : copies_) {
      for (size_t i = 0; i < copy.place.blocks.size(); ++i) {
        held.insert(copy.place.blocks[i]);
        RC_ASSERT(at(copy.place.blocks[i]) == snapshot_content(copy.salt, copy.tokens, copy.place.info, i));
      }
    }
    RC_ASSERT(cache_.held_blocks() == std::ssize(held));
    RC_ASSERT(cache_.free_state_slots() == geometry_.state_slots - std::ssize(running_));
  }

  const CacheGeometry geometry_;
  const TestRule rule_;
  CacheCoordinator cache_;
  std::vector<std::string> memory_;
  Tally& tally_;
  std::vector<Sequence> running_;
  std::vector<Copy> copies_;
  std::vector<Tokens> earlier_;
  int next_ = 0;
  std::mt19937_64 random_;
};

TEST(CacheContents, WhatAHitGivesIsWhatAFreshStartWouldHaveWritten) {
  Tally tally;
  EXPECT_TRUE(rc::check([&] {
    const CacheGeometry geometry{.blocks = *rc::gen::inRange<int64_t>(6, 120),
                                 .tokens_per_block = kBlock,
                                 .full_snapshot_blocks = *rc::gen::inRange<int64_t>(1, 4),
                                 .early_snapshot_blocks = 1,
                                 .early_interval = 2 * kBlock,
                                 .state_slots = *rc::gen::inRange(1, 7)};
    const auto seeds = *rc::gen::resize(400, rc::gen::container<std::vector<uint64_t>>(rc::gen::arbitrary<uint64_t>()));
    const bool collisions = *rc::gen::arbitrary<bool>();
    Workload run(geometry, collisions ? all_equal : chain_hash, tally);
    for (const uint64_t seed : seeds) run.step(seed);
    run.end_all();
  }));
  for (const int64_t count :
       {tally.hits, tally.early_hits, tally.fresh, tally.refused, tally.no_extension, tally.published}) {
    EXPECT_GT(count, 0) << "hits " << tally.hits << ", early hits " << tally.early_hits << ", fresh " << tally.fresh
                        << ", refused " << tally.refused << ", no extension " << tally.no_extension << ", published "
                        << tally.published;
  }
}

}  // namespace
}  // namespace deepinfer
