// The worker between prefixes and a store: what it keeps it finds, as long and as usable as was asked for.
#include "engine/tiers/prefix_tier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <thread>

#include "engine/tiers/memory_kv_store.h"

namespace deepinfer {
namespace {

constexpr PrefixGeometry kGeometry{4, 100, 2, 1};

// A full snapshot is good from its exact_from on, an early one for prompts that go on for 6 tokens.
struct TestRule : SnapshotRule {
  bool usable(const SnapshotInfo& snapshot, int64_t logits_from) const override {
    return snapshot.kind == SnapshotKind::kEarly ? logits_from >= snapshot.position + 6
                                                 : logits_from >= snapshot.exact_from;
  }
};

std::vector<int32_t> tokens(int64_t count, int32_t first = 0) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(first + static_cast<int32_t>(i));
  return tokens;
}

PrefixCopy copy_of(uint64_t salt, const SnapshotInfo& info, std::byte content) {
  PrefixCopy copy;
  copy.salt = salt;
  copy.tokens = tokens(info.position);
  copy.info = info;
  for (int64_t i = 0; i < info.position / kGeometry.tokens_per_block; ++i) copy.blocks.push_back(i);
  copy.payloads.assign(
      static_cast<size_t>(std::ssize(copy.blocks) * kGeometry.block_payload() + kGeometry.snapshot_payload(info.kind)),
      content);
  return copy;
}

class PrefixTierTest : public testing::Test {
 protected:
  explicit PrefixTierTest(int64_t queue = 1 << 20) {
    tier_ = std::make_unique<PrefixTier>(std::make_unique<MemoryKvStore>(1 << 20), kGeometry, rule_, queue,
                                         [this](PrefixAnswer answer) { answer_.set_value(std::move(answer)); });
  }
  // Copies before a question may still be under way: those go to the store after it.
  void keep(PrefixCopy copy) {
    const int64_t before = tier_->stats().store.records_written;
    ASSERT_TRUE(tier_->has_room(std::ssize(copy.payloads)));
    tier_->keep(std::move(copy));
    while (tier_->stats().store.records_written == before) std::this_thread::yield();
  }
  PrefixAnswer ask(uint64_t salt, std::vector<int32_t> prompt, int64_t longer_than = 0) {
    answer_ = {};
    PrefixQuestion question;
    question.ticket = 7;
    question.salt = salt;
    question.most = question.logits_from = std::ssize(prompt) - 1;
    question.tokens = std::move(prompt);
    question.longer_than = longer_than;
    tier_->ask(std::move(question));
    PrefixAnswer answer = answer_.get_future().get();
    EXPECT_EQ(answer.ticket, 7U);
    return answer;
  }

  TestRule rule_;
  std::promise<PrefixAnswer> answer_;
  std::unique_ptr<PrefixTier> tier_;
};

TEST_F(PrefixTierTest, FindsTheLongestThatServes) {
  keep(copy_of(1, {SnapshotKind::kFull, 8, 0, 3}, std::byte{42}));
  const PrefixAnswer answer = ask(1, tokens(20));
  ASSERT_TRUE(answer.found);
  EXPECT_EQ(answer.info.position, 8);
  EXPECT_EQ(answer.info.draft_context_from, 3);
  EXPECT_EQ(answer.tokens, tokens(8));
  ASSERT_EQ(std::ssize(answer.payloads),
            2 * kGeometry.block_payload() + kGeometry.snapshot_payload(SnapshotKind::kFull));
  EXPECT_EQ(answer.payloads[static_cast<size_t>(kGeometry.block_prefix())], std::byte{42});
  EXPECT_EQ(answer.payloads.back(), std::byte{42});

  EXPECT_FALSE(ask(1, tokens(8)).found) << "the last token's logits must be computed";
  EXPECT_TRUE(ask(1, tokens(9)).found);
  EXPECT_FALSE(ask(1, tokens(20), 8).found) << "the pool has as much";
  EXPECT_FALSE(ask(2, tokens(20)).found) << "another salt";
  EXPECT_FALSE(ask(1, tokens(20, 1)).found);

  keep(copy_of(1, {SnapshotKind::kEarly, 16, 16, 0}, std::byte{43}));
  EXPECT_EQ(ask(1, tokens(20)).info.position, 8) << "too near for an early snapshot";
  EXPECT_EQ(ask(1, tokens(23)).info.position, 16);
}

TEST_F(PrefixTierTest, TheSnapshotThatServesMoreStays) {
  keep(copy_of(1, {SnapshotKind::kFull, 8, 20, 0}, std::byte{1}));
  EXPECT_FALSE(ask(1, tokens(14)).found) << "exact from 20 on, and too near for its early part";
  keep(copy_of(1, {SnapshotKind::kFull, 8, 2, 0}, std::byte{2}));
  EXPECT_EQ(ask(1, tokens(12)).info.exact_from, 2);
}

struct SmallQueue : PrefixTierTest {
  SmallQueue() : PrefixTierTest(100) {}
};
TEST_F(SmallQueue, WhatDoesNotFitIsDroppedAndCounted) {
  EXPECT_FALSE(tier_->has_room(101));
  EXPECT_TRUE(tier_->has_room(100));
  EXPECT_EQ(tier_->stats().dropped, 1);
}

}  // namespace
}  // namespace deepinfer
