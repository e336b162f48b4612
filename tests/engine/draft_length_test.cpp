#include "engine/speculation/draft_length.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace deepinfer {
namespace {

using std::chrono::microseconds;

// Rounds of a made-up machine: `base` and `row` microseconds for a step, `draft` for drawing; the first `right` drafts
// of every round come true.  The length after many rounds, looks at other lengths aside.
int settled_length(int64_t base, int64_t row, int64_t draft, int right) {
  DraftLength length;
  std::array<int, DraftLength::kMost + 1> chosen{};
  for (int round = 0; round < 300; ++round) {
    const int drafts = length.next(5);
    if (round >= 100) ++chosen[static_cast<size_t>(drafts)];
    length.record(drafts, drafts > 0 ? microseconds(draft) : Time{0}, microseconds(base + (1 + drafts) * row), drafts,
                  std::min(right, drafts));
  }
  return static_cast<int>(std::max_element(chosen.begin(), chosen.end()) - chosen.begin());
}

TEST(DraftLength, VerifiesAllWhereRowsAreCheapAndDraftsComeTrue) {
  EXPECT_EQ(settled_length(1000, 10, 100, 5), 5);
}
TEST(DraftLength, VerifiesAsManyAsComeTrue) {
  EXPECT_EQ(settled_length(1000, 50, 100, 2), 2);
}
TEST(DraftLength, DoesNotDraftWhereItCostsMoreThanItBrings) {
  EXPECT_EQ(settled_length(0, 1000, 500, 2), 0);
  EXPECT_EQ(settled_length(1000, 10, 100, 0), 0);
}
TEST(DraftLength, NeverMoreThanTheRoundCanUse) {
  DraftLength length;
  EXPECT_EQ(length.next(0), 0);
  EXPECT_LE(length.next(1), 1);
}
TEST(DraftLength, ComesBackWhenDraftsBeginToComeTrue) {
  DraftLength length;
  int last = 0;
  for (int round = 0; round < 2000; ++round) {
    last = length.next(5);
    length.record(last, microseconds(last > 0 ? 100 : 0), microseconds(1000 + 10 * last), last, round < 500 ? 0 : last);
  }
  EXPECT_EQ(last, 5);
}
// Answers of a few tokens, all of whose drafts are right as far as the answer goes.
TEST(DraftLength, TheEndOfAnAnswerDoesNotSpeakAgainstDrafts) {
  DraftLength length;
  std::array<int, DraftLength::kMost + 1> chosen{};
  for (int round = 0; round < 300; ++round) {
    const int drafts = length.next(5);
    if (round >= 100) ++chosen[static_cast<size_t>(drafts)];
    const int reached = round % 2 == 0 ? drafts : std::min(1, drafts);
    length.record(drafts, drafts > 0 ? microseconds(300) : Time{0}, microseconds(1000 + drafts * 100), reached,
                  reached);
  }
  EXPECT_EQ(std::max_element(chosen.begin(), chosen.end()) - chosen.begin(), 5);
}

}  // namespace
}  // namespace deepinfer
