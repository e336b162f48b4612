// Which sequences draft, and how confidence is corrected by what comes true.
#include "engine/speculation/draft_planner.h"

#include <gtest/gtest.h>

#include <chrono>

namespace deepinfer {
namespace {

using std::chrono::microseconds;

constexpr RequestId kRequest = 1;
constexpr int kDrafts = 5;

StepCost cost(int64_t base, int64_t row, int64_t draft) {
  return StepCost({{1, microseconds(base + row)}, {100, microseconds(base + 100 * row)}},
                  {{1, microseconds(draft)}, {100, microseconds(draft)}});
}

// Rounds of one sequence whose drafts are all confident to `logit` and of which `right` come true; how many of the last
// hundred rounds drafted, and the drafts of the last of them.
struct Settled {
  int drafting = 0;
  int length = 0;
};
// ends: after that many right drafts every second answer is over.
Settled settle(DraftPlanner& planner, float logit, int right, int ends = kDrafts) {
  Settled settled;
  const std::vector<float> logits(kDrafts, logit);
  const DraftResult drafted{{}, {logits.data(), 1, kDrafts}, {}};
  const RequestId requests[] = {kRequest};
  const int limits[] = {kDrafts};
  std::vector<int> lengths;
  for (int round = 0; round < 300; ++round) {
    if (!planner.drafts(requests, limits, 0)) continue;
    planner.choose(requests, drafted, limits, 0, lengths);
    if (round >= 200) {
      ++settled.drafting;
      settled.length = lengths[0];
    }
    const int judged = round % 2 == 0 ? lengths[0] : std::min(ends, lengths[0]);
    planner.observe(kRequest, judged, std::min(right, judged));
  }
  return settled;
}

// Those that may leave drafting out.
class DraftPlanning : public testing::TestWithParam<DraftSchedule> {};
INSTANTIATE_TEST_SUITE_P(Schedules, DraftPlanning, testing::Values(DraftSchedule::kLagged, DraftSchedule::kFresh));

TEST_P(DraftPlanning, VerifiesAllWithoutAMeasuredCost) {
  DraftPlanner planner(GetParam(), StepCost());
  const Settled settled = settle(planner, -10, 0);
  EXPECT_EQ(settled.drafting, 100);
  EXPECT_EQ(settled.length, kDrafts);
}

TEST_P(DraftPlanning, GoesOnDraftingWhereItPays) {
  DraftPlanner planner(GetParam(), cost(1000, 20, 100));
  const Settled settled = settle(planner, 4, kDrafts);
  EXPECT_EQ(settled.drafting, 100);
  EXPECT_EQ(settled.length, kDrafts);
}

TEST_P(DraftPlanning, DoesNotBelieveConfidenceThatNothingBearsOut) {
  DraftPlanner planner(GetParam(), cost(1000, 500, 500));
  EXPECT_LE(settle(planner, 4, 0).drafting, 10);
}

TEST_P(DraftPlanning, TheEndOfAnAnswerDoesNotSpeakAgainstDrafts) {
  DraftPlanner planner(GetParam(), cost(1000, 150, 150));
  const Settled settled = settle(planner, 4, kDrafts, 1);
  EXPECT_EQ(settled.drafting, 100);
  EXPECT_EQ(settled.length, kDrafts);
}

TEST_P(DraftPlanning, LooksAgainAndComesBack) {
  DraftPlanner planner(GetParam(), cost(1000, 100, 100));
  settle(planner, 4, 0);
  for (int i = 0; i < 20; ++i) settle(planner, 4, kDrafts);
  EXPECT_EQ(settle(planner, 4, kDrafts).drafting, 100);
}

}  // namespace
}  // namespace deepinfer
