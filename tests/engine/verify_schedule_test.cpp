// How many drafts a step verifies: specs/dspark.md 3.3 and 3.4 against brute force.
#include "engine/speculation/verify_schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace deepinfer {
namespace {

using std::chrono::microseconds;

StepCost linear_cost(int64_t base, int64_t row, int64_t draft) {
  return StepCost({{1, microseconds(base + row)}, {100, microseconds(base + 100 * row)}},
                  {{1, microseconds(draft)}, {100, microseconds(draft)}});
}

Survivals survivals(const std::vector<std::vector<float>>& lists) {
  Survivals s;
  for (const auto& list : lists) {
    s.values.insert(s.values.end(), list.begin(), list.end());
    s.counts.push_back(static_cast<int64_t>(list.size()));
  }
  return s;
}

TEST(StepCost, ReadsStraightLinesBetweenAndBeyondMeasuredSizes) {
  const StepCost cost({{4, microseconds(100)}, {1, microseconds(40)}, {8, microseconds(300)}}, {});
  EXPECT_EQ(cost.verify(1), microseconds(40));
  EXPECT_EQ(cost.verify(2), microseconds(60));
  EXPECT_EQ(cost.verify(8), microseconds(300));
  EXPECT_EQ(cost.verify(10), microseconds(400));
  EXPECT_EQ(cost.draft(3), Time{0});
}

TEST(StepCost, NeverSaysThatMoreRowsAreCheaper) {
  const StepCost cost({{1, microseconds(50)}, {2, microseconds(40)}, {3, microseconds(60)}}, {});
  EXPECT_EQ(cost.verify(2), microseconds(50));
}

TEST(Survivals, AreRunningProductsOfTheConfidences) {
  Survivals s;
  const float logits[] = {0, 0, 100};
  s.append(logits);
  ASSERT_EQ(s.values.size(), 3U);
  EXPECT_FLOAT_EQ(s.values[0], 0.5F);
  EXPECT_FLOAT_EQ(s.values[1], 0.25F);
  EXPECT_FLOAT_EQ(s.values[2], 0.25F);
}

TEST(VerifySchedule, TakesEverythingWhereRowsAreFree) {
  VerifySchedule schedule;
  std::vector<int> lengths;
  const Survivals s = survivals({{0.9F, 0.5F, 0.1F}, {0.3F}, {}});
  schedule.causal(s, linear_cost(1000, 0, 0), 0, lengths);
  EXPECT_EQ(lengths, (std::vector<int>{3, 1, 0}));
  EXPECT_EQ(schedule.lagged_budget(s, linear_cost(1000, 0, 0), 3, 0), 4);
}

TEST(VerifySchedule, TakesNothingWhereARowCostsAsMuchAsAStep) {
  VerifySchedule schedule;
  std::vector<int> lengths;
  const Survivals s = survivals({{0.9F, 0.8F}});
  schedule.causal(s, linear_cost(0, 1000, 0), 0, lengths);
  EXPECT_EQ(lengths, (std::vector<int>{0}));
  EXPECT_EQ(schedule.lagged_budget(s, linear_cost(0, 1000, 0), 1, 0), 0);
}

TEST(VerifySchedule, DoesNotDraftWhereDraftingCostsMoreThanItBrings) {
  VerifySchedule schedule;
  EXPECT_EQ(schedule.lagged_budget(survivals({{0.9F, 0.8F}}), linear_cost(1000, 1, 5000), 1, 0), 0);
}

TEST(VerifySchedule, TheSplitGivesEqualSurvivalsToTheEarlierDraftThenTheEarlierSequence) {
  VerifySchedule schedule;
  std::vector<int> lengths;
  const Survivals s = survivals({{1, 1, 1}, {1, 1, 1}});
  schedule.split(s, 3, lengths);
  EXPECT_EQ(lengths, (std::vector<int>{2, 1}));
  schedule.split(s, 100, lengths);
  EXPECT_EQ(lengths, (std::vector<int>{3, 3}));
}

// Random non-increasing lists.
std::vector<std::vector<float>> random_lists() {
  auto lists = *rc::gen::container<std::vector<std::vector<int>>>(
      rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1000)));
  if (lists.size() > 6) lists.resize(6);
  std::vector<std::vector<float>> result;
  for (auto& list : lists) {
    if (list.size() > 6) list.resize(6);
    std::sort(list.rbegin(), list.rend());
    result.emplace_back();
    for (const int value : list) result.back().push_back(static_cast<float>(value) / 1000);
  }
  return result;
}

RC_GTEST_PROP(VerifySchedule, BudgetsAreTheBestOfAll, ()) {
  const Survivals s = survivals(random_lists());
  const auto sequences = static_cast<int64_t>(s.counts.size());
  RC_PRE(sequences > 0);
  const StepCost cost = linear_cost(*rc::gen::inRange(1, 2000), *rc::gen::inRange(0, 500), *rc::gen::inRange(0, 500));
  std::vector<float> sorted = s.values;
  std::sort(sorted.rbegin(), sorted.rend());
  const bool fresh = *rc::gen::arbitrary<bool>();  // then drafts have been drawn
  VerifySchedule schedule;
  const int64_t budget =
      fresh ? schedule.fresh_budget(s, cost, sequences, 0) : schedule.lagged_budget(s, cost, sequences, 0);
  const auto rate = [&](int64_t drafts) {
    double tokens = static_cast<double>(sequences);
    for (int64_t i = 0; i < drafts; ++i) tokens += sorted[static_cast<size_t>(i)];
    const Time time = cost.verify(sequences + drafts) + (fresh || drafts > 0 ? cost.draft(sequences) : Time{0});
    return tokens / static_cast<double>(time.count());
  };
  for (int64_t other = 0; other <= static_cast<int64_t>(sorted.size()); ++other)
    RC_ASSERT(rate(budget) >= rate(other) * (1 - 1e-12));
}

// A causal choice must not change when later drafts of the same sequence do.
RC_GTEST_PROP(VerifySchedule, TheCausalChoiceLooksAtNoLaterDraft, ()) {
  auto lists = random_lists();
  RC_PRE(!lists.empty());
  const StepCost cost = linear_cost(*rc::gen::inRange(1, 2000), *rc::gen::inRange(0, 500), 100);
  VerifySchedule schedule;
  std::vector<int> before, after;
  schedule.causal(survivals(lists), cost, 0, before);
  const auto r = static_cast<size_t>(*rc::gen::inRange<size_t>(0, lists.size()));
  const auto kept = static_cast<size_t>(before[r]);
  // Whatever follows the drafts that were taken, they are still taken.
  if (lists[r].size() > kept) lists[r].resize(kept);
  schedule.causal(survivals(lists), cost, 0, after);
  RC_ASSERT(after[r] == before[r]);
}

}  // namespace
}  // namespace deepinfer
