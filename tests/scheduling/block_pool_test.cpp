#include "scheduling/cache/block_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

namespace deepinfer {
namespace {

std::vector<BlockId> take(BlockPool& pool, size_t count) {
  std::vector<BlockId> blocks(count);
  EXPECT_TRUE(pool.take(blocks));
  return blocks;
}

TEST(BlockPool, TakesAllOrNothing) {
  BlockPool pool(3);
  const std::vector<BlockId> first = take(pool, 2);
  std::vector<BlockId> more(2, -7);
  EXPECT_FALSE(pool.take(more));
  EXPECT_EQ(more, std::vector<BlockId>({-7, -7}));
  EXPECT_EQ(pool.free(), 1);
  EXPECT_TRUE(pool.take(std::span(more).first(1)));
  EXPECT_EQ(pool.free(), 0);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(more[0], first[0]);
  EXPECT_NE(more[0], first[1]);
  EXPECT_TRUE(pool.take({}));
  pool.check_integrity();
}

TEST(BlockPool, BlockIsFreeAfterItsLastHolder) {
  BlockPool pool(1);
  const BlockId block = take(pool, 1)[0];
  pool.hold(block);
  EXPECT_EQ(pool.holders(block), 2);
  pool.release(block);
  EXPECT_EQ(pool.free(), 0);
  pool.release(block);
  EXPECT_EQ(pool.free(), 1);
  pool.check_integrity();
}

TEST(BlockPool, CachedBlockIsIdleAfterItsLastHolderAndCanBeHeldAgain) {
  BlockPool pool(1);
  const BlockId block = take(pool, 1)[0];
  pool.cache(block);
  EXPECT_EQ(pool.idle(), 0);
  pool.release(block);
  EXPECT_EQ(pool.idle(), 1);
  EXPECT_EQ(pool.free(), 0);
  pool.hold(block);
  EXPECT_EQ(pool.idle(), 0);
  pool.release(block);
  pool.uncache(block);
  EXPECT_EQ(pool.idle(), 0);
  EXPECT_EQ(pool.free(), 1);
  pool.check_integrity();
}

TEST(BlockPool, UncachedBlockStaysWithItsHolder) {
  BlockPool pool(1);
  const BlockId block = take(pool, 1)[0];
  pool.cache(block);
  pool.uncache(block);
  EXPECT_EQ(pool.free(), 0);
  EXPECT_EQ(pool.holders(block), 1);
  pool.release(block);
  EXPECT_EQ(pool.free(), 1);
  pool.check_integrity();
}

TEST(BlockPoolDeathTest, MisuseAborts) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.release(0), "nobody holds block 0");
  EXPECT_DEATH(pool.hold(0), "block 0 is free");
  EXPECT_DEATH(pool.cache(0), "nobody holds block 0");
  EXPECT_DEATH(pool.uncache(0), "block 0 is not cached");
  EXPECT_DEATH(pool.hold(2), "block 2 of 2");
  EXPECT_DEATH(pool.hold(-1), "block -1 of 2");
  const BlockId block = take(pool, 1)[0];
  pool.cache(block);
  EXPECT_DEATH(pool.cache(block), "cached already");
}

TEST(BlockPool, CountersAgreeWithABruteForceModel) {
  EXPECT_TRUE(rc::check([] {
    const int64_t size = *rc::gen::inRange<int64_t>(0, 8);
    BlockPool pool(size);
    std::vector<int> holders(static_cast<size_t>(size));
    std::vector<bool> cached(static_cast<size_t>(size));
    const std::vector<int> steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
    for (const int step : steps) {
      if (step % 5 == 0 || size == 0) {
        std::vector<BlockId> out(static_cast<size_t>(step / 5 % 4));
        const bool fits = static_cast<int64_t>(out.size()) <= pool.free();
        RC_ASSERT(pool.take(out) == fits);
        if (fits) {
          for (const BlockId block : out) {
            RC_ASSERT(holders[static_cast<size_t>(block)] == 0 && !cached[static_cast<size_t>(block)]);
            holders[static_cast<size_t>(block)] = 1;
          }
        }
      } else {
        const size_t i = static_cast<size_t>(step / 5) % holders.size();
        const BlockId block = static_cast<BlockId>(i);
        if (step % 5 == 1 && (holders[i] > 0 || cached[i])) {
          pool.hold(block);
          ++holders[i];
        } else if (step % 5 == 2 && holders[i] > 0) {
          pool.release(block);
          --holders[i];
        } else if (step % 5 == 3 && holders[i] > 0 && !cached[i]) {
          pool.cache(block);
          cached[i] = true;
        } else if (step % 5 == 4 && cached[i]) {
          pool.uncache(block);
          cached[i] = false;
        }
      }
      int64_t free = 0, idle = 0;
      for (size_t i = 0; i < holders.size(); ++i) {
        free += holders[i] == 0 && !cached[i];
        idle += holders[i] == 0 && cached[i];
      }
      RC_ASSERT(pool.free() == free);
      RC_ASSERT(pool.idle() == idle);
      pool.check_integrity();
    }
  }));
}

}  // namespace
}  // namespace deepinfer
