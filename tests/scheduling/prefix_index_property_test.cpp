// The prefix index and the pool against PrefixFacts: after every step of random sequences of publish, match, hold,
// release, make_room and clear, every answer, every block's state and every counter are those of the oracle.  The
// oracle knows which facts are evicted and when, so the order of eviction is part of what is compared.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <iterator>
#include <random>
#include <vector>

#include "prefix_facts.h"
#include "scheduling/cache/prefix_index.h"

namespace deepinfer {
namespace {

using Tokens = PrefixFacts::Tokens;
using Blocks = std::vector<BlockId>;

constexpr int64_t kBlock = 2;

struct Tally {
  int64_t hits = 0, misses = 0, taken = 0, twins = 0, refused = 0, evicted = 0, evicted_held = 0, no_room = 0;
};

class Run {
 public:
  Run(int64_t pool_blocks, ChainHash hash, Tally& tally)
      : pool_(pool_blocks), index_(pool_, kBlock, hash), facts_(pool_blocks, kBlock), tally_(tally) {}
  ~Run() {
    tally_.evicted += facts_.evicted;
    tally_.evicted_held += facts_.evicted_held;
  }

  void step(uint64_t seed) {
    random_.seed(seed);
    while (holders_.size() > 3) release();  // or the pool is full of what they hold
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        start();
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        publish();
        break;
      case 8:
      case 9:
        release();
        break;
      case 10:
        make_room(pick(5));
        break;
      default:
        if (pick(8) == 0) {
          index_.clear();
          facts_.clear();
        }
    }
    compare();
  }

 private:
  // What a sequence holds; without tokens a snapshot that is being read.
  struct Holder {
    uint64_t salt = 0;
    Tokens tokens;
    Blocks blocks;
  };

  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }

  // Half of the time an earlier text goes on; the others have few different tokens, so they share beginnings.
  Tokens some_tokens() {
    Tokens tokens;
    if (pick(2) == 0 && !earlier_.empty()) tokens = earlier_[static_cast<size_t>(pick(std::ssize(earlier_)))];
    if (std::ssize(tokens) > 5 * kBlock) tokens.resize(static_cast<size_t>(pick(5 * kBlock)));
    for (int64_t more = pick(4 * kBlock) + kBlock; more > 0; --more) tokens.push_back(pick(6) == 0);
    earlier_.push_back(tokens);
    return tokens;
  }

  bool make_room(int64_t blocks) {
    const bool expected = facts_.make_room(blocks);
    RC_ASSERT(index_.make_room(blocks) == expected);
    if (!expected) ++tally_.no_room;
    return expected;
  }
  bool take(Blocks& list, int64_t count) {
    if (!make_room(count)) return false;
    Blocks more(static_cast<size_t>(count));
    RC_ASSERT(pool_.take(more));
    const std::vector<bool> cached = facts_.cached();
    for (const BlockId block : more) {
      RC_ASSERT(!facts_.is_held(block) && !cached[static_cast<size_t>(block)]);
      ++facts_.holders[block];
    }
    list.insert(list.end(), more.begin(), more.end());
    return true;
  }
  void hold(const Blocks& blocks) {
    for (const BlockId block : blocks) {
      pool_.hold(block);
      ++facts_.holders[block];
    }
  }
  void release(const Blocks& blocks) {
    for (const BlockId block : blocks) {
      pool_.release(block);
      --facts_.holders[block];
    }
  }

  void start() {
    Holder sequence{.salt = static_cast<uint64_t>(pick(2)), .tokens = some_tokens(), .blocks = {}};
    const int64_t most = pick(3) == 0 ? pick(5 * kBlock) : std::ssize(sequence.tokens);
    const int64_t exact_from = pick(4);
    const bool early_will_do = pick(2) == 0;
    const auto usable = [&](const SnapshotInfo& info) {
      return info.kind == SnapshotKind::kEarly ? early_will_do : info.exact_from <= exact_from;
    };
    const auto expected = facts_.match(sequence.salt, sequence.tokens, most, usable);
    const auto hit = index_.match(sequence.salt, sequence.tokens, most, usable);
    RC_ASSERT(hit.has_value() == expected.has_value());
    if (hit) {
      RC_ASSERT(hit->blocks == expected->blocks);
      RC_ASSERT(hit->snapshot_blocks == expected->snapshot_blocks);
      RC_ASSERT(hit->snapshot.position == static_cast<int64_t>(hit->blocks.size()) * kBlock);
      RC_ASSERT(hit->snapshot.kind == expected->snapshot.kind);
      RC_ASSERT(hit->snapshot.exact_from == expected->snapshot.exact_from);
      RC_ASSERT(hit->snapshot.draft_context_from == expected->snapshot.draft_context_from);
      sequence.blocks = hit->blocks;
      hold(sequence.blocks);
      if (pick(2) == 0) {
        hold(hit->snapshot_blocks);
        holders_.push_back({.salt = 0, .tokens = {}, .blocks = hit->snapshot_blocks});
      }
    }
    ++(hit ? tally_.hits : tally_.misses);
    const int64_t all = (static_cast<int64_t>(sequence.tokens.size()) + kBlock - 1) / kBlock;
    if (take(sequence.blocks, all - static_cast<int64_t>(sequence.blocks.size()))) {
      holders_.push_back(sequence);
    } else {
      release(sequence.blocks);
    }
  }

  void publish() {
    if (holders_.empty()) return;
    const Holder sequence = holders_[static_cast<size_t>(pick(static_cast<int64_t>(holders_.size())))];
    const int64_t blocks = static_cast<int64_t>(sequence.tokens.size()) / kBlock;
    if (blocks == 0) return;
    const SnapshotInfo info{.kind = pick(3) == 0 ? SnapshotKind::kEarly : SnapshotKind::kFull,
                            .position = (pick(2) == 0 ? blocks : pick(blocks) + 1) * kBlock,
                            .exact_from = pick(4),
                            .draft_context_from = pick(2)};
    Blocks snapshot;
    if (!take(snapshot, info.kind == SnapshotKind::kFull ? 2 : pick(2))) return;
    const int64_t nodes = facts_.nodes();
    const bool expected = facts_.publish(sequence.salt, sequence.tokens, sequence.blocks, info, snapshot);
    RC_ASSERT(index_.publish(sequence.salt, sequence.tokens, sequence.blocks, info, snapshot) == expected);
    ++(expected ? tally_.taken : tally_.refused);
    if (facts_.nodes() < nodes + info.position / kBlock) ++tally_.twins;
    if (pick(4) == 0) {
      holders_.push_back({.salt = 0, .tokens = {}, .blocks = snapshot});
    } else {
      release(snapshot);
    }
  }

  void release() {
    if (holders_.empty()) return;
    const auto gone = holders_.begin() + pick(static_cast<int64_t>(holders_.size()));
    release(gone->blocks);
    holders_.erase(gone);
  }

  void compare() {
    const std::vector<bool> cached = facts_.cached();
    for (BlockId block = 0; block < pool_.size(); ++block) {
      RC_ASSERT(pool_.cached(block) == cached[static_cast<size_t>(block)]);
      RC_ASSERT(pool_.holders(block) == facts_.holders[block]);
    }
    RC_ASSERT(pool_.free() == facts_.free());
    RC_ASSERT(pool_.idle() == facts_.idle());
    RC_ASSERT(index_.nodes() == facts_.nodes());
    RC_ASSERT(index_.snapshots() == facts_.snapshots());
    pool_.check_integrity();
    index_.check_integrity();
    index_.check_part(1 + pick(pool_.size()));
  }

  BlockPool pool_;
  PrefixIndex index_;
  PrefixFacts facts_;
  Tally& tally_;
  std::vector<Holder> holders_;
  std::vector<Tokens> earlier_;
  std::mt19937_64 random_;
};

void check_against_facts(ChainHash hash) {
  Tally tally;
  EXPECT_TRUE(rc::check([&] {
    const int64_t pool_blocks = *rc::gen::inRange<int64_t>(1, 50);
    const auto seeds = *rc::gen::resize(400, rc::gen::container<std::vector<uint64_t>>(rc::gen::arbitrary<uint64_t>()));
    Run run(pool_blocks, hash, tally);
    for (const uint64_t seed : seeds) run.step(seed);
  }));
  for (const int64_t count : {tally.hits, tally.misses, tally.taken, tally.twins, tally.refused, tally.evicted,
                              tally.evicted_held, tally.no_room}) {
    EXPECT_GT(count, 0) << "hits " << tally.hits << ", misses " << tally.misses << ", taken " << tally.taken
                        << ", twins " << tally.twins << ", refused " << tally.refused << ", evicted " << tally.evicted
                        << ", evicted although held " << tally.evicted_held << ", no room " << tally.no_room;
  }
}

TEST(PrefixIndexProperty, AgreesWithTheFacts) {
  check_against_facts(chain_hash);
}

TEST(PrefixIndexProperty, AgreesWithTheFactsWhenAllKeysAreEqual) {
  check_against_facts([](ChainKey, std::span<const int32_t>) { return ChainKey{7, 7}; });
}

TEST(PrefixIndexProperty, AgreesWithTheFactsWhenSomeKeysAreEqual) {
  check_against_facts([](ChainKey parent, std::span<const int32_t> tokens) {
    return ChainKey{chain_hash(parent, tokens).low % 3, 0};
  });
}

}  // namespace
}  // namespace deepinfer
