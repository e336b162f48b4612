// Strict JSON reading, and the spellings of Python and Rust.
#include "text/json_text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace deepinfer {
namespace {

TEST(JsonText, Refused) {
  using namespace std::string_literals;
  for (const std::string& text : std::vector<std::string>{"",
                                                          " ",
                                                          "{",
                                                          "[1,]",
                                                          "{\"a\":1,}",
                                                          "[1] x",
                                                          "[1][2]",
                                                          "nul",
                                                          "NaN",
                                                          "-NaN",
                                                          "Infinity",
                                                          "-Infinity",
                                                          "01",
                                                          "+1",
                                                          ".5",
                                                          "1.",
                                                          "1e",
                                                          "0x1",
                                                          "'a'",
                                                          "{a:1}",
                                                          "[1 2]",
                                                          "\"a\nb\"",
                                                          "\"\x01\"",
                                                          "\"\\x\"",
                                                          "\"\\ud800\"",
                                                          "\"\\udc00\"",
                                                          "\"\\ud800\\u0041\"",
                                                          "\"\\u12\"",
                                                          "\"\x80\"",
                                                          "\"\xC0\x80\"",
                                                          "\"\xED\xA0\x80\"",
                                                          "\"\xF5\x80\x80\x80\"",
                                                          "\"\xE2\x82\"",
                                                          "1e999",
                                                          "-1e999",
                                                          "// c\n1",
                                                          "/* c */1",
                                                          "\xEF\xBB\xBF{}",
                                                          "{}\0"s,
                                                          "{}\0{}"s,
                                                          "\"a\0b\""s,
                                                          "[",
                                                          "\xFF",
                                                          "\f1",
                                                          "\u00a01"}) {
    const Result<Json> parsed = parse_json(text);
    EXPECT_FALSE(parsed.ok()) << text;
    if (!parsed.ok()) {
      EXPECT_TRUE(is_valid_utf8(parsed.status().message())) << text;
      EXPECT_LT(parsed.status().message().size(), 200u);
    }
  }
}

TEST(JsonText, Accepted) {
  for (const auto& [text, compact] : std::vector<std::pair<std::string, std::string>>{
           {" \t\r\n[1]\n ", "[1]"},
           {"\"\\u0000\\ud83d\\ude00\\/\"", "\"\\u0000😀/\""},
           {"{\"a\":1,\"b\":2,\"a\":{\"c\":3}}", "{\"a\":{\"c\":3},\"b\":2}"},
           {"{\"\":{\"\":[]}}", "{\"\":{\"\":[]}}"},
           {"18446744073709551615", "18446744073709551615"},
           {"-9223372036854775808", "-9223372036854775808"},
           {"18446744073709551616", "1.8446744073709552e19"},
           {"-0", "-0.0"},
           {"0", "0"},
           {"-0.0", "-0.0"},
           {"1E+2", "100.0"},
           {"5e-324", "5e-324"},
           {"1e-400", "0.0"}}) {
    const Result<Json> parsed = parse_json(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
    EXPECT_EQ(dump_compact(*parsed), compact) << text;
  }
}

TEST(JsonText, Depth) {
  for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{{"[", "]"}, {"{\"a\":", "}"}}) {
    const auto nested = [&, o = open, c = close](int depth) {
      std::string text;
      for (int i = 0; i < depth; ++i) text += o;
      text += "1";
      for (int i = 0; i < depth; ++i) text += c;
      return text;
    };
    EXPECT_TRUE(parse_json(nested(kMaxJsonDepth)).ok());
    EXPECT_FALSE(parse_json(nested(kMaxJsonDepth + 1)).ok());
    EXPECT_FALSE(parse_json(nested(1000000)).ok());
  }
  // Depth is nesting, not length.
  std::string list = "[";
  for (int i = 0; i < 1000; ++i) list += "[],";
  EXPECT_TRUE(parse_json(list + "[]]").ok());
}

// 200,000 keys, each twice: one look-up a key, not one scan.
TEST(JsonText, LargeObjectsKeepPlaceAndLastValue) {
  constexpr int kKeys = 200000;
  std::string text = "{";
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kKeys; ++i) {
      text += text.size() > 1 ? ",\"k" : "\"k";
      text += std::to_string(i);
      text += "\":";
      text += std::to_string(i + round);
    }
  }
  const Result<Json> parsed = parse_json(text + "}");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->size(), static_cast<size_t>(kKeys));
  int i = 0;
  for (const auto& [key, value] : parsed->items()) {
    ASSERT_EQ(key.substr(1), std::to_string(i));
    ASSERT_EQ(value, i + 1);
    ++i;
  }
}

TEST(JsonText, PythonFloats) {
  for (const auto& [value, text] :
       std::vector<std::pair<double, std::string>>{{1.0, "1.0"},
                                                   {-0.0, "-0.0"},
                                                   {0.1, "0.1"},
                                                   {1e-4, "0.0001"},
                                                   {1.5e-4, "0.00015"},
                                                   {1e-5, "1e-05"},
                                                   {1.5e-7, "1.5e-07"},
                                                   {1e15, "1000000000000000.0"},
                                                   {1e16, "1e+16"},
                                                   {9007199254740993.0, "9007199254740992.0"},
                                                   {1.5e16, "1.5e+16"},
                                                   {1e22, "1e+22"},
                                                   {1e100, "1e+100"},
                                                   {5e-324, "5e-324"},
                                                   {1.7976931348623157e308, "1.7976931348623157e+308"},
                                                   {123456789.123456789, "123456789.12345679"},
                                                   {100.0, "100.0"},
                                                   {0.30000000000000004, "0.30000000000000004"}}) {
    EXPECT_EQ(dump_python(Json(value)), text);
  }
}

TEST(JsonText, RustFloats) {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{{1.0, "1.0"},
                                                                               {1e-5, "0.00001"},
                                                                               {1.5e-5, "0.000015"},
                                                                               {1e-6, "1e-6"},
                                                                               {1e15, "1000000000000000.0"},
                                                                               {1e16, "1e16"},
                                                                               {1.5e16, "1.5e16"},
                                                                               {12.5, "12.5"},
                                                                               {1e-7, "1e-7"},
                                                                               {-1.25e-300, "-1.25e-300"}}) {
    EXPECT_EQ(dump_compact(Json(value)), text);
  }
}

TEST(JsonText, PythonStyle) {
  EXPECT_EQ(dump_python(parse_json(R"({"a":[1,"é\n\u0001\u007f/",null,true],"b":{},"c":[]})").value()),
            "{\"a\": [1, \"é\\n\\u0001\x7f/\", null, true], \"b\": {}, \"c\": []}");
}

TEST(JsonTextProperty, DoublesReadBack) {
  EXPECT_TRUE(rc::check("both spellings read back as the same double", [] {
    const uint64_t bits = *rc::gen::arbitrary<uint64_t>();
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    RC_PRE(std::isfinite(value));
    for (const std::string& text : {dump_python(Json(value)), dump_compact(Json(value))}) {
      const double back = parse_json(text).value().get<double>();
      RC_ASSERT(std::memcmp(&back, &value, sizeof(value)) == 0);
    }
  }));
}

// O-14: whatever the bytes, a JSON string is valid, and valid UTF-8 is kept.
TEST(JsonTextProperty, StringsOfAnyBytesAreValid) {
  EXPECT_TRUE(rc::check("append_json_string gives JSON that reads back as the repaired text", [] {
    const std::string bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    std::string json;
    append_json_string(json, bytes);
    std::string repaired;
    append_repaired_utf8(bytes, repaired);
    RC_ASSERT(parse_json(json).value() == repaired);
  }));
}

}  // namespace
}  // namespace deepinfer
