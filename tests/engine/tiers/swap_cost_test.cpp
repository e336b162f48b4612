// When reading back pays.
#include "engine/tiers/swap_cost.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(SwapCost, WhatIsNotKnownPays) {
  SwapCost cost;
  EXPECT_TRUE(cost.pays(int64_t{1} << 40, 1));
  cost.observe_read(1'000'000, milliseconds(1));
  EXPECT_TRUE(cost.pays(int64_t{1} << 40, 1));
  SwapCost other;
  other.observe_step(100, 0, milliseconds(1));
  EXPECT_TRUE(other.pays(int64_t{1} << 40, 1));
}

TEST(SwapCost, BytesAreWeighedAgainstTokens) {
  SwapCost cost;
  cost.observe_step(100, 0, milliseconds(1));     // 10 us a token
  cost.observe_read(1'000'000, milliseconds(1));  // 1 ns a byte
  EXPECT_TRUE(cost.pays(999'000, 100));           // 0.999 ms against 1 ms
  EXPECT_FALSE(cost.pays(1'100'000, 100));
  EXPECT_TRUE(cost.pays(1'100'000, 200));
}

TEST(SwapCost, DecodeRowsCostToo) {
  SwapCost cost;
  cost.observe_step(100, 100, milliseconds(2));  // 10 us a token
  cost.observe_read(1'000'000, milliseconds(1));
  EXPECT_FALSE(cost.pays(1'100'000, 100));
}

TEST(SwapCost, StepsOfFewRowsSayNothing) {
  SwapCost cost;
  cost.observe_step(100, 0, milliseconds(1));
  for (int i = 0; i < 100; ++i) cost.observe_step(1, 8, milliseconds(50));
  cost.observe_read(1'000'000, milliseconds(1));
  EXPECT_FALSE(cost.pays(1'100'000, 100));
}

TEST(SwapCost, AFasterTierIsNoticed) {
  SwapCost cost;
  cost.observe_step(100, 0, milliseconds(1));
  cost.observe_read(1000, milliseconds(100));  // 100 us a byte
  int tried = 0;
  for (int i = 0; i < 160; ++i) tried += cost.pays(1'000'000, 1000);
  EXPECT_EQ(tried, 10);
  for (int i = 0; i < 100; ++i) cost.observe_read(1'000'000, microseconds(100));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(cost.pays(1'000'000, 1000));
}

}  // namespace
}  // namespace deepinfer
