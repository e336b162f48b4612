#include "scheduling/cache/cache_coordinator.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace deepinfer {
namespace {

using Tokens = std::vector<int32_t>;

// A snapshot is good from its exact_from on; an early one for prompts that go on for 20 tokens.
struct TestRule : SnapshotRule {
  bool usable(const SnapshotInfo& snapshot, int64_t logits_from) const override {
    return snapshot.kind == SnapshotKind::kEarly ? logits_from >= snapshot.position + 20
                                                 : logits_from >= snapshot.exact_from;
  }
};

Tokens text_of(int64_t tokens, int32_t first = 0) {
  Tokens text(static_cast<size_t>(tokens));
  std::iota(text.begin(), text.end(), first);
  return text;
}

constexpr CacheGeometry kGeometry{.blocks = 20,
                                  .tokens_per_block = 4,
                                  .full_snapshot_blocks = 3,
                                  .early_snapshot_blocks = 1,
                                  .early_interval = 8,
                                  .state_slots = 3};

class CacheCoordinatorTest : public testing::Test {
 protected:
  using Admitted = CacheCoordinator::Admitted;

  ~CacheCoordinatorTest() override { cache.check_integrity(); }

  std::optional<Admitted> admit(const Tokens& known, int64_t tokens, int64_t reserve = 0, bool reuse = true,
                                int64_t logits_from = -1) {
    std::optional<Admitted> admitted = cache.admit(0, known, tokens, logits_from, reuse, reserve);
    cache.check_integrity();
    return admitted;
  }
  void publish(const Tokens& known, const SequenceBlocks& sequence, SnapshotInfo info) {
    std::optional<SnapshotPlace> place = cache.place_snapshot(info);
    ASSERT_TRUE(place);
    cache.publish(0, known, sequence, *std::move(place));
    cache.check_integrity();
  }
  void release(Admitted&& admitted) {
    if (admitted.restore) cache.release_snapshot(*std::move(admitted.restore));
    cache.release(std::move(admitted.blocks));
    cache.check_integrity();
  }
  // A sequence that comes, leaves its records up to `position`, and goes.
  void leave_records(const Tokens& known, int64_t position) {
    std::optional<Admitted> admitted = admit(known, static_cast<int64_t>(known.size()), 0, false);
    ASSERT_TRUE(admitted);
    publish(known, admitted->blocks, {.position = position});
    release(*std::move(admitted));
  }

  TestRule rule;
  CacheCoordinator cache{kGeometry, rule};
};

TEST_F(CacheCoordinatorTest, BlocksAreRoundedUp) {
  EXPECT_EQ(cache.blocks_for(0), 0);
  EXPECT_EQ(cache.blocks_for(1), 1);
  EXPECT_EQ(cache.blocks_for(4), 1);
  EXPECT_EQ(cache.blocks_for(5), 2);
  EXPECT_EQ(cache.blocks_for(std::numeric_limits<int64_t>::max()), (int64_t{1} << 61));
  EXPECT_TRUE(cache.can_ever_fit(80));
  EXPECT_FALSE(cache.can_ever_fit(81));
  EXPECT_FALSE(cache.can_ever_fit(std::numeric_limits<int64_t>::max()));
}

TEST_F(CacheCoordinatorTest, SequenceGetsItsBlocksAndASlotAndGivesThemBack) {
  std::optional<Admitted> a = admit(text_of(9), 10);
  ASSERT_TRUE(a);
  EXPECT_FALSE(a->restore);
  EXPECT_EQ(a->blocks.table().size(), 3u);
  EXPECT_EQ(a->blocks.state_slot(), 0);
  EXPECT_EQ(cache.held_blocks(), 3);
  EXPECT_EQ(cache.free_state_slots(), 2);
  release(*std::move(a));
  EXPECT_EQ(cache.held_blocks(), 0);
  EXPECT_EQ(cache.free_state_slots(), 3);
}

TEST_F(CacheCoordinatorTest, MovedSequenceOwnsNothing) {
  std::optional<Admitted> a = admit(text_of(9), 10);
  SequenceBlocks b = std::move(a->blocks);
  EXPECT_EQ(a->blocks.table().size(), 0u);
  EXPECT_EQ(a->blocks.state_slot(), -1);
  cache.release(std::move(a->blocks));
  EXPECT_EQ(cache.held_blocks(), 3);
  cache.release(std::move(b));
  EXPECT_EQ(cache.held_blocks(), 0);
  cache.release(std::move(b));  // again: there is nothing to give back
}

TEST_F(CacheCoordinatorTest, NoSlotNoAdmission) {
  std::vector<std::optional<Admitted>> running;
  for (int i = 0; i < 3; ++i) running.push_back(admit(text_of(4), 4));
  EXPECT_FALSE(admit(text_of(4), 4));
  release(*std::move(running[1]));
  running[1] = admit(text_of(4), 4);
  ASSERT_TRUE(running[1]);
  EXPECT_EQ(running[1]->blocks.state_slot(), 1);
  for (auto& admitted : running) release(*std::move(admitted));
}

TEST_F(CacheCoordinatorTest, ExtensionReachesTheTokensOrChangesNothing) {
  std::optional<Admitted> a = admit(text_of(4), 4), b = admit(text_of(4), 40);
  EXPECT_TRUE(cache.extend(a->blocks, 3));
  EXPECT_EQ(a->blocks.table().size(), 1u);
  EXPECT_TRUE(cache.extend(a->blocks, 5));
  EXPECT_EQ(a->blocks.table().size(), 2u);
  EXPECT_FALSE(cache.extend(a->blocks, 41));
  EXPECT_EQ(a->blocks.table().size(), 2u);
  EXPECT_EQ(cache.available_blocks(), 8);
  EXPECT_TRUE(cache.extend(a->blocks, 40));
  EXPECT_EQ(cache.available_blocks(), 0);
  release(*std::move(a));
  release(*std::move(b));
}

TEST_F(CacheCoordinatorTest, NextTurnStartsAtThePublishedEnd) {
  const Tokens known = text_of(20);
  std::optional<Admitted> first = admit(known, 21);
  const std::vector<BlockId> table(first->blocks.table().begin(), first->blocks.table().end());
  publish(known, first->blocks, {.position = 16, .exact_from = 5, .draft_context_from = 3});
  release(*std::move(first));
  std::optional<Admitted> next = admit(text_of(30), 31);
  ASSERT_TRUE(next && next->restore);
  EXPECT_EQ(next->restore->info.position, 16);
  EXPECT_EQ(next->restore->info.exact_from, 5);
  EXPECT_EQ(next->restore->info.draft_context_from, 3);
  EXPECT_EQ(next->restore->blocks.size(), 3u);
  EXPECT_TRUE(std::equal(table.begin(), table.begin() + 4, next->blocks.table().begin()));
  EXPECT_EQ(cache.held_blocks(), 8 + 3);
  release(*std::move(next));
  std::optional<Admitted> alone = admit(text_of(30), 31, 0, /*reuse=*/false);
  EXPECT_FALSE(alone->restore);
  release(*std::move(alone));
}

TEST_F(CacheCoordinatorTest, LogitsAreNeverTakenFromTheCache) {
  leave_records(text_of(16), 16);
  leave_records(text_of(16), 12);
  const auto start = [&](int64_t known, int64_t logits_from) {
    std::optional<Admitted> admitted = admit(text_of(known), known, 0, true, logits_from);
    const int64_t position = admitted->restore ? admitted->restore->info.position : 0;
    release(*std::move(admitted));
    return position;
  };
  EXPECT_EQ(start(17, -1), 16);
  EXPECT_EQ(start(16, -1), 12) << "its last token gives the logits";
  EXPECT_EQ(start(17, 16), 16);
  EXPECT_EQ(start(17, 15), 12);
  EXPECT_EQ(start(17, 11), 0);
  EXPECT_EQ(start(17, 0), 0);
  EXPECT_EQ(start(16, 100), 12);
}

TEST_F(CacheCoordinatorTest, RuleDecidesWhichSnapshotServes) {
  const Tokens known = text_of(40);
  std::optional<Admitted> first = admit(known, 40);
  publish(known, first->blocks, {.kind = SnapshotKind::kEarly, .position = 8, .exact_from = 30});
  publish(known, first->blocks, {.kind = SnapshotKind::kFull, .position = 16, .exact_from = 30});
  release(*std::move(first));
  const auto start = [&](int64_t tokens) {
    std::optional<Admitted> admitted = admit(text_of(tokens), tokens);
    const int64_t position = admitted->restore ? admitted->restore->info.position : 0;
    release(*std::move(admitted));
    return position;
  };
  EXPECT_EQ(start(31), 16);
  EXPECT_EQ(start(30), 8) << "too short for the full one at 16, long enough for the early one";
  EXPECT_EQ(start(28), 0);
}

TEST_F(CacheCoordinatorTest, ReserveStaysAvailable) {
  EXPECT_FALSE(admit(text_of(4), 40, 11));
  EXPECT_EQ(cache.held_blocks(), 0);
  std::optional<Admitted> a = admit(text_of(4), 40, 10);
  ASSERT_TRUE(a);
  EXPECT_EQ(cache.available_blocks(), 10);
  release(*std::move(a));
}

TEST_F(CacheCoordinatorTest, IdleBlocksThatAHitTakesCountAgainstTheReserve) {
  leave_records(text_of(20), 16);
  std::optional<Admitted> other = admit(text_of(4, 100), 4);
  // Four idle blocks of the prefix, three of its snapshot and one more, of 19.
  EXPECT_FALSE(admit(text_of(18), 20, 12));
  EXPECT_EQ(cache.held_blocks(), 1);
  std::optional<Admitted> a = admit(text_of(18), 20, 11);
  ASSERT_TRUE(a && a->restore);
  EXPECT_EQ(cache.available_blocks(), 11);
  release(*std::move(a));
  release(*std::move(other));
}

TEST_F(CacheCoordinatorTest, RunningSequencesShareTheBlocksOfTheirPrefix) {
  leave_records(text_of(20), 16);
  std::optional<Admitted> a = admit(text_of(18), 20), b = admit(text_of(18), 20);
  cache.release_snapshot(*std::exchange(a->restore, std::nullopt));
  cache.release_snapshot(*std::exchange(b->restore, std::nullopt));
  EXPECT_EQ(cache.held_blocks(), 4 + 1 + 1);
  release(*std::move(a));
  EXPECT_EQ(cache.held_blocks(), 4 + 1);
  release(*std::move(b));
}

TEST_F(CacheCoordinatorTest, PrefixThatOthersHoldNeedsNoRoom) {
  leave_records(text_of(20), 16);
  std::optional<Admitted> a = admit(text_of(18), 20);
  cache.release_snapshot(*std::exchange(a->restore, std::nullopt));
  std::optional<Admitted> other = admit(text_of(4, 100), 44);
  EXPECT_EQ(cache.available_blocks(), 4);
  std::optional<Admitted> b = admit(text_of(18), 20);  // five blocks, four of them a's; and three of the snapshot
  ASSERT_TRUE(b && b->restore);
  EXPECT_EQ(cache.available_blocks(), 0);
  release(*std::move(a));
  release(*std::move(b));
  release(*std::move(other));
}

TEST_F(CacheCoordinatorTest, AloneASequenceThatFillsThePoolIsAdmittedWithoutThePrefix) {
  leave_records(text_of(20), 16);
  std::optional<Admitted> other = admit(text_of(4, 100), 4);
  EXPECT_FALSE(admit(text_of(70), 76)) << "room for its 19 blocks, but not for the snapshot: it waits";
  release(*std::move(other));
  std::optional<Admitted> a = admit(text_of(70), 76);
  ASSERT_TRUE(a);
  EXPECT_FALSE(a->restore);
  EXPECT_EQ(cache.held_blocks(), 19);
  release(*std::move(a));
}

TEST_F(CacheCoordinatorTest, SnapshotsNeverTakeWhatSequencesHold) {
  std::optional<Admitted> a = admit(text_of(70), 72);
  EXPECT_FALSE(cache.place_snapshot({.position = 64}));
  std::optional<SnapshotPlace> early = cache.place_snapshot({.kind = SnapshotKind::kEarly, .position = 64});
  ASSERT_TRUE(early);
  EXPECT_EQ(early->blocks.size(), 1u);
  EXPECT_EQ(cache.held_blocks(), 19);
  cache.publish(0, text_of(70), a->blocks, *std::move(early));
  EXPECT_EQ(cache.held_blocks(), 18);
  EXPECT_EQ(cache.cached_snapshots(), 1);
  EXPECT_TRUE(cache.extend(a->blocks, 80)) << "the snapshot makes room";
  EXPECT_EQ(cache.cached_snapshots(), 0);
  release(*std::move(a));
}

TEST_F(CacheCoordinatorTest, SnapshotThatIsNotWrittenLeavesNothing) {
  std::optional<SnapshotPlace> place = cache.place_snapshot({.position = 8});
  EXPECT_EQ(cache.held_blocks(), 3);
  cache.release_snapshot(*std::move(place));
  EXPECT_EQ(cache.held_blocks(), 0);
  EXPECT_EQ(cache.cached_snapshots(), 0);
}

TEST_F(CacheCoordinatorTest, SnapshotPublishedAheadIsKnownAndKeepsItsPlaceUntilItIsGivenBack) {
  const Tokens known = text_of(20);
  std::optional<Admitted> first = admit(known, 20);
  std::optional<SnapshotPlace> place = cache.place_snapshot({.position = 16});
  cache.publish_ahead(0, known, first->blocks, *place);
  cache.check_integrity();
  std::optional<Admitted> next = admit(text_of(18), 20);
  ASSERT_TRUE(next && next->restore);
  EXPECT_EQ(next->restore->blocks, place->blocks);
  release(*std::move(next));
  release(*std::move(first));
  EXPECT_EQ(cache.held_blocks(), 3);
  std::optional<Admitted> all = admit(text_of(4, 100), 68);  // all that is not being written
  ASSERT_TRUE(all);
  EXPECT_EQ(cache.cached_snapshots(), 0);
  EXPECT_EQ(cache.held_blocks(), 20);
  cache.release_snapshot(*std::move(place));
  EXPECT_EQ(cache.available_blocks(), 3);
  release(*std::move(all));
}

TEST_F(CacheCoordinatorTest, RefusedSnapshotGivesItsBlocksBack) {
  leave_records(text_of(20), 16);
  leave_records(text_of(20), 16);
  EXPECT_EQ(cache.cached_snapshots(), 1);
  std::optional<Admitted> all = admit(text_of(4, 100), 13 * 4);  // 20 blocks without 4 and 3
  EXPECT_EQ(cache.cached_snapshots(), 1);
  release(*std::move(all));
}

TEST_F(CacheCoordinatorTest, AdoptedPrefixIsAHitLikeAnyOther) {
  const Tokens text = text_of(12);
  EXPECT_EQ(cache.cached_prefix(0, text, -1), 0);
  std::vector<BlockId> below, of_snapshot;
  const auto fill = [&](std::span<const BlockId> blocks, std::span<const BlockId> snapshot) {
    below.assign(blocks.begin(), blocks.end());
    of_snapshot.assign(snapshot.begin(), snapshot.end());
    EXPECT_EQ(cache.held_blocks(), 5) << "nobody else gets them";
  };
  ASSERT_TRUE(cache.adopt(0, text, {SnapshotKind::kFull, 8, 0, 0}, 0, fill));
  cache.check_integrity();
  EXPECT_EQ(cache.held_blocks(), 0);
  EXPECT_EQ(cache.cached_prefix(0, text, -1), 8);
  EXPECT_EQ(cache.cached_prefix(1, text, -1), 0) << "another salt";
  EXPECT_EQ(cache.cached_prefix(0, text, 3), 0) << "logits from before it";
  std::optional<Admitted> admitted = admit(text, 13);
  ASSERT_TRUE(admitted && admitted->restore);
  EXPECT_EQ(admitted->restore->info.position, 8);
  EXPECT_EQ(admitted->restore->blocks, of_snapshot);
  EXPECT_EQ(Tokens(admitted->blocks.table().begin(), admitted->blocks.table().begin() + 2), below);
  release(*std::move(admitted));
}

TEST_F(CacheCoordinatorTest, AdoptionTakesNothingFromTheReserve) {
  const auto never = [](std::span<const BlockId>, std::span<const BlockId>) { ADD_FAILURE() << "no room"; };
  EXPECT_FALSE(cache.adopt(0, text_of(8), {SnapshotKind::kFull, 8, 0, 0}, 16, never));
  cache.check_integrity();
  EXPECT_EQ(cache.available_blocks(), 20);
}

TEST_F(CacheCoordinatorTest, ClearedCacheKnowsNothing) {
  leave_records(text_of(20), 16);
  cache.clear_cache();
  std::optional<Admitted> a = admit(text_of(20), 20);
  EXPECT_FALSE(a->restore);
  release(*std::move(a));
}

TEST(CacheCoordinatorGeometry, WithoutFullSnapshotsNothingIsShared) {
  const TestRule rule;
  CacheGeometry geometry = kGeometry;
  geometry.full_snapshot_blocks = 0;
  CacheCoordinator cache(geometry, rule);
  EXPECT_FALSE(cache.place_snapshot({.kind = SnapshotKind::kFull, .position = 8}));
  EXPECT_FALSE(cache.place_snapshot({.kind = SnapshotKind::kEarly, .position = 8}));
}

TEST(CacheCoordinatorDeathTest, SizesThatMakeNoSenseAbort) {
  const TestRule rule;
  const auto make = [&](auto change) {
    CacheGeometry geometry = kGeometry;
    change(geometry);
    CacheCoordinator(geometry, rule).check_integrity();
  };
  EXPECT_DEATH(make([](CacheGeometry& g) { g.tokens_per_block = 0; }), "0 tokens in a block");
  EXPECT_DEATH(make([](CacheGeometry& g) { g.blocks = -1; }), "-1 blocks");
  EXPECT_DEATH(make([](CacheGeometry& g) { g.blocks = int64_t{1} << 31; }), "2147483648 blocks");
  EXPECT_DEATH(make([](CacheGeometry& g) { g.early_interval = 6; }), "every 6 tokens");
  EXPECT_DEATH(make([](CacheGeometry& g) { g.state_slots = 0; }), "0 state slots");
  EXPECT_DEATH(make([](CacheGeometry& g) { g.full_snapshot_blocks = -3; }), "-3");
}

}  // namespace
}  // namespace deepinfer
