// The rules of the prefix index, one by one.  Everything at once: prefix_index_property_test.cpp.
#include "scheduling/cache/prefix_index.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <set>
#include <vector>

namespace deepinfer {
namespace {

using Tokens = std::vector<int32_t>;
using Blocks = std::vector<BlockId>;

constexpr int64_t kBlock = 4;

// `blocks` blocks of tokens, different for each `text`, that begin as `prefix` does.
Tokens text_of(int64_t blocks, int text, const Tokens& prefix = {}) {
  Tokens tokens(static_cast<size_t>(blocks * kBlock));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = i < prefix.size() ? prefix[i] : static_cast<int32_t>(1000 * text + static_cast<int>(i));
  }
  return tokens;
}

const auto always = [](const SnapshotInfo&) { return true; };

class PrefixIndexTest : public testing::Test {
 protected:
  Blocks take(int64_t count) {
    Blocks blocks(static_cast<size_t>(count));
    EXPECT_TRUE(pool.take(blocks));
    return blocks;
  }
  void hold(const Blocks& blocks) {
    for (const BlockId block : blocks) pool.hold(block);
  }
  void release(const Blocks& blocks) {
    for (const BlockId block : blocks) pool.release(block);
  }
  // Publishes all of `tokens` with given blocks and `size` blocks for the snapshot, which it lets go.
  bool publish(const Tokens& tokens, const Blocks& blocks, int64_t size = 1, SnapshotInfo info = {},
               uint64_t salt = 0) {
    info.position = static_cast<int64_t>(tokens.size());
    const Blocks snapshot = take(size);
    const bool taken = index.publish(salt, tokens, blocks, info, snapshot);
    release(snapshot);
    check();
    return taken;
  }
  // As a sequence that computes `tokens`, publishes them and ends.
  bool compute(const Tokens& tokens, int64_t size = 1, SnapshotInfo info = {}, uint64_t salt = 0) {
    const Blocks blocks = take(static_cast<int64_t>(tokens.size()) / kBlock);
    const bool taken = publish(tokens, blocks, size, info, salt);
    release(blocks);
    check();
    return taken;
  }
  std::optional<PrefixHit> match(const Tokens& tokens, uint64_t salt = 0) {
    return index.match(salt, tokens, static_cast<int64_t>(tokens.size()), always);
  }
  int64_t matched(const Tokens& tokens, uint64_t salt = 0) {
    const std::optional<PrefixHit> hit = match(tokens, salt);
    return hit ? hit->snapshot.position : 0;
  }
  void check() {
    pool.check_integrity();
    index.check_integrity();
  }

  BlockPool pool{64};
  PrefixIndex index{pool, kBlock};
};

TEST_F(PrefixIndexTest, NothingIsKnownAtFirst) {
  EXPECT_FALSE(match(text_of(3, 1)));
  EXPECT_FALSE(match({}));
  EXPECT_EQ(index.nodes(), 0);
  EXPECT_EQ(index.snapshots(), 0);
  check();
}

TEST_F(PrefixIndexTest, HitGivesTheBlocksOfThePrefixInOrder) {
  const Tokens tokens = text_of(3, 1);
  const Blocks blocks = take(3), snapshot = take(2);
  const SnapshotInfo info{.kind = SnapshotKind::kFull, .position = 12, .exact_from = 5, .draft_context_from = 2};
  EXPECT_TRUE(index.publish(9, tokens, blocks, info, snapshot));
  const std::optional<PrefixHit> hit = match(text_of(5, 2, tokens), 9);
  ASSERT_TRUE(hit);
  EXPECT_EQ(hit->blocks, blocks);
  EXPECT_EQ(hit->snapshot_blocks, snapshot);
  EXPECT_EQ(hit->snapshot.position, 12);
  EXPECT_EQ(hit->snapshot.exact_from, 5);
  EXPECT_EQ(hit->snapshot.draft_context_from, 2);
  ChainKey key = chain_root(9);
  for (int64_t i = 0; i < 3; ++i) key = chain_hash(key, std::span(tokens).subspan(i * kBlock, kBlock));
  EXPECT_EQ(hit->key, key);
  check();
}

TEST_F(PrefixIndexTest, BlocksWithoutASnapshotAtTheirEndAreNoHit) {
  const Tokens tokens = text_of(3, 1);
  compute(tokens);
  EXPECT_EQ(matched(text_of(2, 1)), 0);
  EXPECT_EQ(matched(text_of(4, 2, text_of(2, 1))), 0);
  EXPECT_EQ(matched(tokens), 12);
}

TEST_F(PrefixIndexTest, LongestUsableSnapshotNotPastMostIsTaken) {
  const Tokens tokens = text_of(6, 1);
  for (const int64_t blocks : {2, 4, 6}) compute(text_of(blocks, 1), 1, {.exact_from = blocks});
  const auto usable_from = [&](int64_t least, int64_t most) {
    const auto hit = index.match(0, tokens, most, [&](const SnapshotInfo& info) { return info.exact_from <= least; });
    return hit ? hit->snapshot.position : 0;
  };
  EXPECT_EQ(usable_from(6, 24), 24);
  EXPECT_EQ(usable_from(6, 1000), 24);
  EXPECT_EQ(usable_from(6, 23), 16);
  EXPECT_EQ(usable_from(5, 24), 16);
  EXPECT_EQ(usable_from(2, 24), 8);
  EXPECT_EQ(usable_from(6, 8), 8);
  EXPECT_EQ(usable_from(6, 7), 0);
  EXPECT_EQ(usable_from(6, -1), 0);
  EXPECT_EQ(usable_from(1, 24), 0);
}

TEST_F(PrefixIndexTest, PrefixesAreSharedUnderTheSameSaltOnly) {
  const Tokens tokens = text_of(2, 1);
  compute(tokens, 1, {}, 5);
  EXPECT_EQ(matched(tokens, 5), 8);
  EXPECT_EQ(matched(tokens, 6), 0);
  compute(tokens, 1, {}, 6);
  EXPECT_EQ(index.nodes(), 4);
  EXPECT_NE(match(tokens, 5)->blocks, match(tokens, 6)->blocks);
}

TEST_F(PrefixIndexTest, CollidingKeysCostTimeAndNeverGiveAWrongHit) {
  PrefixIndex colliding(pool, kBlock, [](ChainKey, std::span<const int32_t>) { return ChainKey{7, 7}; });
  std::vector<Tokens> all;
  for (int text = 0; text < 8; ++text) all.push_back(text_of(2 + text % 3, text, text % 2 ? all.back() : Tokens()));
  std::vector<Blocks> blocks_of;
  for (size_t i = 0; i < all.size(); ++i) {
    const Blocks blocks = take(static_cast<int64_t>(all[i].size()) / kBlock), snapshot = take(1);
    EXPECT_TRUE(colliding.publish(i / 4, all[i], blocks, {.position = static_cast<int64_t>(all[i].size())}, snapshot));
    release(blocks);
    release(snapshot);
    colliding.check_integrity();
  }
  for (size_t i = 0; i < all.size(); ++i) {
    Tokens longer = all[i];
    longer.insert(longer.end(), {-1, -2, -3, -4});
    const auto hit = colliding.match(i / 4, longer, 1000, always);
    ASSERT_TRUE(hit);
    EXPECT_EQ(hit->snapshot.position, static_cast<int64_t>(all[i].size()));
    EXPECT_FALSE(colliding.match(2, longer, 1000, always));
    Tokens other = longer;
    other[1] = -5;
    EXPECT_FALSE(colliding.match(i / 4, other, 1000, always));
  }
  while (colliding.snapshots() > 0) {
    EXPECT_TRUE(colliding.make_room(pool.free() + 1));
    colliding.check_integrity();
  }
  EXPECT_EQ(pool.free(), pool.size());
}

int64_t hashed_blocks = 0;

TEST_F(PrefixIndexTest, EveryBlockOfAMatchIsHashedOnce) {
  PrefixIndex counting(pool, kBlock, [](ChainKey parent, std::span<const int32_t> tokens) {
    ++hashed_blocks;
    return chain_hash(parent, tokens);
  });
  const Tokens tokens = text_of(20, 1);
  const Blocks blocks = take(20), snapshot = take(1);
  hashed_blocks = 0;
  counting.publish(0, tokens, blocks, {.position = 80}, snapshot);
  EXPECT_EQ(hashed_blocks, 20);
  hashed_blocks = 0;
  EXPECT_TRUE(counting.match(0, tokens, 80, always));
  EXPECT_EQ(hashed_blocks, 20);
  hashed_blocks = 0;
  EXPECT_FALSE(counting.match(0, tokens, 43, always));
  EXPECT_EQ(hashed_blocks, 10);
  hashed_blocks = 0;
  EXPECT_FALSE(counting.match(0, text_of(20, 2), 80, always)) << "goes on past the first unknown block";
  EXPECT_EQ(hashed_blocks, 1);
}

TEST_F(PrefixIndexTest, PublishingTheSameAgainTakesNoBlock) {
  const Tokens tokens = text_of(5, 1);
  EXPECT_TRUE(compute(tokens, 3));
  const Blocks blocks = match(tokens)->blocks;
  EXPECT_EQ(pool.idle(), 8);
  EXPECT_FALSE(compute(tokens, 3));
  EXPECT_EQ(pool.idle(), 8);
  EXPECT_EQ(pool.free(), 56);
  EXPECT_EQ(match(tokens)->blocks, blocks);
}

TEST_F(PrefixIndexTest, FirstOfTwinBlocksStaysAndTheSecondIsItsSequencesOwn) {
  const Tokens tokens = text_of(3, 1), longer = text_of(4, 1);
  const Blocks first = take(3), second = take(4);
  EXPECT_TRUE(publish(tokens, first));
  EXPECT_TRUE(publish(longer, second));
  EXPECT_EQ(match(longer)->blocks, Blocks({first[0], first[1], first[2], second[3]}));
  EXPECT_FALSE(pool.cached(second[0]));
  release(first);
  EXPECT_EQ(match(longer)->blocks[0], first[0]);
  const int64_t free = pool.free();
  release(second);
  EXPECT_EQ(pool.free(), free + 3) << "its twins are free, its own fourth block is idle";
  check();
}

TEST_F(PrefixIndexTest, OfTwoSnapshotsAtOnePlaceTheOneThatServesMoreStays) {
  const Tokens tokens = text_of(2, 1);
  EXPECT_TRUE(compute(tokens, 2, {.exact_from = 6, .draft_context_from = 3}));
  EXPECT_EQ(pool.idle(), 4);
  EXPECT_FALSE(compute(tokens, 2, {.exact_from = 7, .draft_context_from = 0}));
  EXPECT_FALSE(compute(tokens, 2, {.exact_from = 6, .draft_context_from = 3}));
  EXPECT_TRUE(compute(tokens, 2, {.exact_from = 6, .draft_context_from = 2}));
  EXPECT_TRUE(compute(tokens, 2, {.exact_from = 4, .draft_context_from = 8}));
  EXPECT_EQ(match(tokens)->snapshot.exact_from, 4);
  EXPECT_EQ(pool.idle(), 4) << "the other's blocks are free";
  EXPECT_EQ(index.snapshots(), 1);
}

TEST_F(PrefixIndexTest, FullSnapshotTakesThePlaceOfAnEarlyOneAndServesWhereThatWould) {
  const Tokens tokens = text_of(2, 1);
  const auto early_only = [](const SnapshotInfo& info) { return info.kind == SnapshotKind::kEarly; };
  EXPECT_TRUE(compute(tokens, 1, {.kind = SnapshotKind::kEarly, .exact_from = 0}));
  EXPECT_TRUE(index.match(0, tokens, 8, early_only));
  EXPECT_TRUE(compute(tokens, 3, {.kind = SnapshotKind::kFull, .exact_from = 8}));
  EXPECT_EQ(pool.idle(), 5);
  EXPECT_FALSE(compute(tokens, 1, {.kind = SnapshotKind::kEarly, .exact_from = 0}));
  EXPECT_EQ(pool.idle(), 5);
  const auto hit = index.match(0, tokens, 8, early_only);
  ASSERT_TRUE(hit);
  EXPECT_EQ(hit->snapshot.kind, SnapshotKind::kFull);
  EXPECT_EQ(hit->snapshot_blocks.size(), 3u);
}

TEST_F(PrefixIndexTest, EvictionTakesTheSnapshotAndUpwardsWhatOnlyItNeeded) {
  const Tokens trunk = text_of(2, 1);
  compute(trunk);                 // blocks 1, 2
  compute(text_of(4, 2, trunk));  // 3, 4 of its own
  compute(text_of(5, 3, trunk));  // 3, 4, 5 of its own
  EXPECT_EQ(index.nodes(), 7);
  EXPECT_EQ(pool.idle(), 10);
  // Tokens lost / blocks freed: trunk 8 / 3 when it was published, the others 8 / 3 and 12 / 4; the older goes first.
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(matched(trunk), 0) << "its snapshot has gone, its blocks are needed further down";
  EXPECT_EQ(index.nodes(), 7);
  check();
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(matched(text_of(4, 2, trunk)), 0);
  EXPECT_EQ(index.nodes(), 5);
  EXPECT_EQ(matched(text_of(5, 3, trunk)), 20);
  check();
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(index.nodes(), 0);
  EXPECT_EQ(pool.free(), pool.size());
  check();
}

TEST_F(PrefixIndexTest, CheapToComputeForItsBlocksGoesFirst) {
  compute(text_of(8, 1), 8);  // 32 tokens / 16 blocks
  compute(text_of(8, 2), 2);  // 32 / 10
  compute(text_of(2, 3), 8);  // 8 / 10
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(matched(text_of(2, 3)), 0);
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(matched(text_of(8, 1)), 0);
  EXPECT_EQ(matched(text_of(8, 2)), 32);
}

TEST_F(PrefixIndexTest, AmongEqualsTheLeastRecentlyUsedGoesFirst) {
  for (int text = 0; text < 3; ++text) compute(text_of(3, text));
  EXPECT_EQ(matched(text_of(3, 0)), 12);
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(matched(text_of(3, 1)), 0);
  EXPECT_EQ(matched(text_of(3, 0)), 12);
  EXPECT_EQ(matched(text_of(3, 2)), 12);
}

TEST_F(PrefixIndexTest, ExpensiveOnesAgeToo) {
  compute(text_of(10, 1), 1);  // 40 tokens / 11 blocks, used once
  for (int text = 2; text < 100; ++text) {
    compute(text_of(1, text), 1);  // 4 / 2
    EXPECT_TRUE(index.make_room(4));
  }
  EXPECT_EQ(matched(text_of(10, 1)), 0);
}

TEST_F(PrefixIndexTest, NoRoomEvictsNothing) {
  const Blocks held = take(60);
  compute(text_of(2, 1));
  EXPECT_FALSE(index.make_room(5));
  EXPECT_EQ(matched(text_of(2, 1)), 8);
  EXPECT_TRUE(index.make_room(4));
  EXPECT_EQ(matched(text_of(2, 1)), 0);
  release(held);
}

TEST_F(PrefixIndexTest, HeldPathLosesItsSnapshotAndKeepsItsBlocks) {
  const Tokens tokens = text_of(3, 1);
  const Blocks blocks = take(3);
  publish(tokens, blocks, 2);
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(matched(tokens), 0);
  EXPECT_EQ(pool.free(), 61);
  for (const BlockId block : blocks) EXPECT_EQ(pool.holders(block), 1);
  check();
  // Its sequence can publish again, farther on; and what another one published meanwhile stays.
  const Blocks more = take(1);
  EXPECT_TRUE(publish(text_of(4, 1), {blocks[0], blocks[1], blocks[2], more[0]}));
  EXPECT_EQ(match(text_of(4, 1))->blocks, Blocks({blocks[0], blocks[1], blocks[2], more[0]}));
  release(blocks);
  release(more);
  check();
}

TEST_F(PrefixIndexTest, HeldSnapshotIsPassedOver) {
  compute(text_of(2, 1), 2);
  compute(text_of(2, 2), 2);
  const Blocks held = match(text_of(2, 1))->snapshot_blocks;
  hold(held);
  EXPECT_EQ(matched(text_of(2, 2)), 8);  // the held one would be the first to go
  EXPECT_TRUE(index.make_room(pool.free() + 1));
  EXPECT_EQ(matched(text_of(2, 2)), 0);
  EXPECT_EQ(matched(text_of(2, 1)), 8);
  check();
  release(held);
  EXPECT_TRUE(index.make_room(pool.free() + 1)) << "and has its old place in the order afterwards";
  EXPECT_EQ(matched(text_of(2, 1)), 0);
}

TEST_F(PrefixIndexTest, WhenNothingElseIsLeftAHeldSnapshotIsForgottenButNotFreed) {
  compute(text_of(2, 1), 2);
  const Blocks held = match(text_of(2, 1))->snapshot_blocks;
  hold(held);
  EXPECT_FALSE(index.make_room(63));
  EXPECT_TRUE(index.make_room(62));
  EXPECT_EQ(index.snapshots(), 0);
  for (const BlockId block : held) EXPECT_EQ(pool.holders(block), 1);
  check();
  release(held);
  EXPECT_EQ(pool.free(), 64);
}

TEST_F(PrefixIndexTest, ClearForgetsEverythingAndFreesNothingHeld) {
  const Blocks blocks = take(3);
  publish(text_of(3, 1), blocks);
  compute(text_of(4, 2));
  index.clear();
  check();
  EXPECT_EQ(index.nodes(), 0);
  EXPECT_EQ(index.snapshots(), 0);
  EXPECT_EQ(matched(text_of(3, 1)), 0);
  EXPECT_EQ(pool.free(), 61);
  EXPECT_EQ(pool.idle(), 0);
  release(blocks);
  EXPECT_EQ(pool.free(), 64);
}

TEST_F(PrefixIndexTest, ModelWithoutWindowsHasSnapshotsWithoutBlocks) {
  compute(text_of(3, 1), 0);
  EXPECT_EQ(matched(text_of(3, 1)), 12);
  EXPECT_EQ(pool.idle(), 3);
  EXPECT_TRUE(index.make_room(64));
  check();
}

// A recursive walk or destructor would need a frame for each block.
TEST(PrefixIndexLimits, PromptOfAMillionTokens) {
  constexpr int64_t kBlocks = 8192, kTokens = kBlocks * 128;
  BlockPool pool(kBlocks + 8);
  Tokens tokens(static_cast<size_t>(kTokens));
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto publish_all = [&](PrefixIndex& index) {
    Blocks blocks(kBlocks), snapshot(8);
    ASSERT_TRUE(pool.take(blocks) && pool.take(snapshot));
    ASSERT_TRUE(index.publish(1, tokens, blocks, {.position = kTokens}, snapshot));
    for (const BlockId block : blocks) pool.release(block);
    for (const BlockId block : snapshot) pool.release(block);
  };
  PrefixIndex index(pool, 128);
  publish_all(index);
  EXPECT_EQ(index.match(1, tokens, kTokens, always)->blocks.size(), static_cast<size_t>(kBlocks));
  index.check_integrity();
  EXPECT_TRUE(index.make_room(1));
  EXPECT_EQ(pool.free(), pool.size()) << "nothing of the chain can be used without its snapshot";
  publish_all(index);
  index.clear();
  EXPECT_EQ(pool.free(), pool.size());
  publish_all(index);  // and it goes down full
}

TEST(PrefixIndexDeathTest, MisuseAborts) {
  BlockPool pool(8);
  PrefixIndex index(pool, kBlock);
  Blocks blocks(2), snapshot(1);
  ASSERT_TRUE(pool.take(blocks) && pool.take(snapshot));
  const Tokens tokens = text_of(2, 1);
  EXPECT_DEATH(index.publish(0, tokens, blocks, {.position = 7}, snapshot), "snapshot at 7");
  EXPECT_DEATH(index.publish(0, tokens, blocks, {.position = 0}, snapshot), "snapshot at 0");
  EXPECT_DEATH(index.publish(0, tokens, blocks, {.position = 12}, snapshot), "snapshot at 12, 8 tokens, 2 blocks");
  EXPECT_DEATH(index.publish(0, tokens, Blocks({6, 7}), {.position = 8}, snapshot), "nobody holds block 6");
  EXPECT_DEATH(index.publish(0, tokens, blocks, {.position = 8}, blocks), "cached already");
}

}  // namespace
}  // namespace deepinfer
