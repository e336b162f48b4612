#include "text/stop_strings.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace deepinfer {
namespace {

// The text let through, piece by piece, and what was found.
using Outcome = std::pair<std::string, std::string>;
Outcome run(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopStrings filter(std::move(stops));
  std::string out;
  for (const std::string& piece : pieces) filter.feed(piece, out);
  filter.finish(out);
  return {out, filter.found() == nullptr ? "" : *filter.found()};
}

TEST(StopStrings, LetsEverythingThroughWithoutStops) {
  EXPECT_EQ(run({}, {"ab", "c"}), Outcome("abc", ""));
  EXPECT_EQ(run({""}, {"ab", "c"}), Outcome("abc", ""));
}

TEST(StopStrings, HoldsBackABeginningUntilItIsDecided) {
  StopStrings filter({"DEFGHIJ"});
  std::string out;
  filter.feed("ABC", out);
  EXPECT_EQ(out, "ABC");
  for (const char* piece : {"DEF", "G", "HI"}) {
    filter.feed(piece, out);
    EXPECT_EQ(out, "ABC");
  }
  filter.feed("JKL", out);
  EXPECT_EQ(out, "ABC");
  ASSERT_NE(filter.found(), nullptr);
  filter.feed("more", out);
  filter.finish(out);
  EXPECT_EQ(out, "ABC");
}

TEST(StopStrings, GivesBackABeginningThatCameToNothing) {
  EXPECT_EQ(run({"DEFG"}, {"abcDE", "Fx"}), Outcome("abcDEFx", ""));
  EXPECT_EQ(run({"DEFG"}, {"abcDE"}), Outcome("abcDE", ""));
}

TEST(StopStrings, StopsInsideAPiece) {
  EXPECT_EQ(run({"\n\n"}, {"one\n\ntwo"}), Outcome("one", "\n\n"));
}

TEST(StopStrings, TheFirstToEndCounts) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}), Outcome("xa", "bc"));
  EXPECT_EQ(run({"bc", "abc"}, {"xabc"}), Outcome("x", "abc"));
}

TEST(StopStrings, SeesASelfOverlappingStop) {
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b"}), Outcome("a", "aab"));
}

// However the text is cut, the result is that of one piece.
RC_GTEST_PROP(StopStrings, PiecesDoNotMatter, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b'));
  const auto text = *letters;
  auto stops = *rc::gen::container<std::vector<std::string>>(letters);
  if (stops.size() > 3) stops.resize(3);
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const auto length = *rc::gen::inRange<size_t>(1, 4);
    pieces.push_back(text.substr(at, length));
    at += length;
  }
  RC_ASSERT(run(stops, pieces) == run(stops, {text}));
}

}  // namespace
}  // namespace deepinfer
