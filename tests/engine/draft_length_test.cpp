#include "engine/speculation/draft_length.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace deepinfer {
namespace {

using std::chrono::microseconds;

constexpr float kSure[] = {4, 4, 4, 4, 4};  // the confidence of all drafts, whatever comes true

// Rounds of a made-up machine: `base` and `row` microseconds for a step, `draft` for drawing; the first `right` drafts
// of every round come true.  The length after many rounds, looks at other lengths aside.
int settled_length(int64_t base, int64_t row, int64_t draft, int right) {
  DraftLength length;
  std::array<int, DraftLength::kMost + 1> chosen{};
  for (int round = 0; round < 300; ++round) {
    const bool drafts = length.next(5) > 0;
    const int verified = drafts ? length.choose(kSure) : 0;
    if (round >= 100) ++chosen[static_cast<size_t>(verified)];
    length.record(verified, drafts ? microseconds(draft) : Time{0}, microseconds(base + (1 + verified) * row), verified,
                  std::min(right, verified));
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
    const bool drafts = length.next(5) > 0;
    last = drafts ? length.choose(kSure) : 0;
    length.record(last, microseconds(drafts ? 100 : 0), microseconds(1000 + 10 * last), last, round < 500 ? 0 : last);
  }
  EXPECT_EQ(last, 5);
}
// Answers of a few tokens, all of whose drafts are right as far as the answer goes.
TEST(DraftLength, TheEndOfAnAnswerDoesNotSpeakAgainstDrafts) {
  DraftLength length;
  std::array<int, DraftLength::kMost + 1> chosen{};
  for (int round = 0; round < 300; ++round) {
    const bool drafts = length.next(5) > 0;
    const int verified = drafts ? length.choose(kSure) : 0;
    if (round >= 100) ++chosen[static_cast<size_t>(verified)];
    const int reached = round % 2 == 0 ? verified : std::min(1, verified);
    length.record(verified, drafts ? microseconds(300) : Time{0}, microseconds(1000 + verified * 100), reached,
                  reached);
  }
  EXPECT_EQ(std::max_element(chosen.begin(), chosen.end()) - chosen.begin(), 5);
}
// Where confidence tells drafts that come true from others, rows are spent on the former.
TEST(DraftLength, GoesByTheConfidenceInTheDraftsAtHand) {
  DraftLength length;
  constexpr float kUnsure[] = {4, 4, -4, 0, 0};
  int64_t sure = 0, unsure = 0, sure_rounds = 0, unsure_rounds = 0;
  for (int round = 0; round < 400; ++round) {
    const bool is_sure = round % 2 == 0, drafts = length.next(5) > 0;
    const int verified = drafts ? length.choose(is_sure ? kSure : kUnsure) : 0;
    if (round >= 100 && drafts) {
      (is_sure ? sure : unsure) += verified;
      ++(is_sure ? sure_rounds : unsure_rounds);
    }
    length.record(verified, drafts ? microseconds(200) : Time{0}, microseconds(800 + verified * 200), verified,
                  std::min(is_sure ? 5 : 2, verified));
  }
  EXPECT_EQ(sure, 5 * sure_rounds);
  EXPECT_EQ(unsure, 2 * unsure_rounds);
  EXPECT_GT(sure_rounds, 100);
}

}  // namespace
}  // namespace deepinfer
