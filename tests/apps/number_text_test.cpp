#include "number_text.h"

#include <gtest/gtest.h>

namespace deepinfer::cli {
namespace {

constexpr NumberRange<float> kShare{.lowest = 0, .highest = 1, .lowest_excluded = true};

TEST(NumberText, ReadsWholeNumbersAndFractions) {
  EXPECT_EQ(*parse_number<int32_t>("42", {}), 42);
  EXPECT_EQ(*parse_number<uint64_t>("18446744073709551615", {}), UINT64_MAX);
  EXPECT_EQ(*parse_number<float>("0.95", kShare), 0.95f);
  EXPECT_EQ(*parse_number<float>("1e-3", kShare), 1e-3f);
}

// What slips through checks of the form x < lowest || x > highest must not slip through here.
TEST(NumberText, RefusesWhatIsNoNumberOfTheRange) {
  for (const char* text :
       {"nan", "NaN", "-nan", "inf", "-inf", "1e999", "0", "-0.0", "1.0001", "", " 1", "1 ", "0x1p-1", "one", "0.5f"})
    EXPECT_FALSE(parse_number<float>(text, kShare).ok()) << text;
  for (const char* text : {"-1", "1.5", "1e3", "99999999999", "", "+1", "0x10"})
    EXPECT_FALSE(parse_number<int32_t>(text, {.lowest = 0}).ok()) << text;
  EXPECT_FALSE(parse_number<uint64_t>("18446744073709551616", {}).ok());
  EXPECT_FALSE(parse_number<float>("inf", NumberRange<float>{.lowest = 0}).ok());
  EXPECT_FALSE(parse_number<float>("nan", NumberRange<float>{}).ok());
}

TEST(NumberText, MessagesNameTheValueAndTheRange) {
  EXPECT_EQ(parse_number<float>("1.5", kShare).status().message(), "1.5 is out of range, allowed: (0, 1]");
  EXPECT_EQ(parse_number<int32_t>("-3", {.lowest = 0}).status().message(), "-3 is out of range, allowed: at least 0");
  EXPECT_EQ(parse_number<uint64_t>("-3", {.lowest = 0}).status().message(), "-3 is out of range, allowed: at least 0");
  EXPECT_EQ(parse_number<int32_t>("many", {.lowest = 0}).status().message(),
            "`many` is not a whole number, allowed: at least 0");
}

}  // namespace
}  // namespace deepinfer::cli
