#include "scheduling/cache/eviction_order.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <utility>
#include <vector>

namespace deepinfer {
namespace {

TEST(EvictionOrder, LowestPriorityGoesFirstAndAmongEqualsTheOldest) {
  EvictionOrder order(4);
  order.set(0, {2.0, 1});
  order.set(1, {1.0, 3});
  order.set(2, {1.0, 2});
  EXPECT_EQ(order.first(), 2);
  order.set(2, {1.0, 4});
  EXPECT_EQ(order.first(), 1);
  order.remove(1);
  EXPECT_EQ(order.first(), 2);
  order.set(0, {0.5, 5});
  EXPECT_EQ(order.first(), 0);
  EXPECT_EQ(order.first_rank().priority, 0.5);
  EXPECT_TRUE(order.contains(2));
  EXPECT_FALSE(order.contains(1));
  EXPECT_EQ(order.size(), 2);
  order.check_integrity();
}

TEST(EvictionOrder, AgreesWithASortedList) {
  EXPECT_TRUE(rc::check([] {
    constexpr int32_t kIds = 20;
    EvictionOrder order(kIds);
    std::map<int32_t, EvictionRank> ranks;
    const auto steps = *rc::gen::container<std::vector<std::pair<int32_t, int>>>(
        rc::gen::pair(rc::gen::inRange(0, kIds), rc::gen::inRange(0, 12)));
    uint64_t use = 0;
    for (const auto& [id, priority] : steps) {
      if (priority > 8) {
        if (ranks.erase(id) > 0) order.remove(id);
      } else {
        ranks[id] = {static_cast<double>(priority), ++use};
        order.set(id, ranks[id]);
      }
      order.check_integrity();
      RC_ASSERT(order.size() == static_cast<int64_t>(ranks.size()));
      RC_ASSERT(order.empty() == ranks.empty());
      for (int32_t i = 0; i < kIds; ++i) RC_ASSERT(order.contains(i) == ranks.contains(i));
      if (ranks.empty()) continue;
      int32_t first = ranks.begin()->first;
      for (const auto& [i, rank] : ranks)
        if (rank < ranks[first]) first = i;
      RC_ASSERT(order.first() == first);
      RC_ASSERT(order.first_rank() == ranks[first]);
    }
  }));
}

}  // namespace
}  // namespace deepinfer
