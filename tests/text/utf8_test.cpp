// The WHATWG repair and incremental decoding, at the byte level.
#include "text/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "text/stream_decoder.h"
#include "tokenizer_files.h"

namespace deepinfer {
namespace {

using std::string_literals::operator""s;

std::string repair(std::string_view bytes) {
  std::string text;
  append_repaired_utf8(bytes, text);
  return text;
}

TEST(Utf8, RepairsByMaximalSubparts) {
  const std::string r(kReplacementCharacter);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"a\0b"s, "a\0b"s},
      {"\x80", r},
      {"\xBF\x80", r + r},
      {"\xC0\x80", r + r},  // overlong: no lead byte
      {"\xC1\xBF", r + r},
      {"\xC2", r},  // cut off
      {"\xC2"
       "a",
       r + "a"},
      {"\xE0\x80\x80", r + r + r},  // overlong: the second byte is already bad
      {"\xE0\xA0", r},              // cut off in the third byte: one
      {"\xE0\xA0"
       "a",
       r + "a"},
      {"\xED\xA0\x80", r + r + r},  // surrogate
      {"\xED\x9F\xBF", "\xED\x9F\xBF"},
      {"\xEF\xBF\xBE", "\xEF\xBF\xBE"},  // a noncharacter is a character
      {"\xF0\x80\x80\x80", r + r + r + r},
      {"\xF0\x90\x80", r},
      {"\xF0\x9F\xA6"
       "a",
       r + "a"},
      {"\xF0\x9F\xA6\xF0\x9F\xA6\x99", r + "\xF0\x9F\xA6\x99"},
      {"\xF4\x90\x80\x80", r + r + r + r},  // above U+10FFFF
      {"\xF5\x80", r + r},
      {"\xFE\xFF", r + r},
      {"\xE2\xE2\x82\xAC", r + "\xE2\x82\xAC"},
  };
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(repair(bytes), expected) << ::testing::PrintToString(bytes);
}

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    const Utf8Prefix prefix = utf8_prefix(text);
    ASSERT_EQ(prefix.kind, Utf8Prefix::Kind::kCharacter);
    ASSERT_EQ(prefix.code_point, c);
    ASSERT_EQ(prefix.length, text.size());
    const char* at = text.data();
    ASSERT_EQ(next_code_point(at), c);
    ASSERT_EQ(at, text.data() + text.size());
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(utf8_prefix(std::string_view(text).substr(0, cut)).kind, Utf8Prefix::Kind::kIncomplete);
      ASSERT_EQ(complete_utf8_prefix(std::string_view(text).substr(0, cut)), 0u);
    }
    ASSERT_EQ(complete_utf8_prefix(text), text.size());
  }
}

// Bytes that are often whole characters, often broken ones.
rc::Gen<std::string> broken_text() {
  const auto part = rc::gen::elementOf(
      std::vector<std::string>{"a", "ď", "語", "🦙", "\x80", "\xBF", "\xC3", "\xE8\xAA", "\xE8", "\xF0\x9F\xA6",
                               "\xF0\x9F", "\xF0", "\xED\xA0", "\xFF", "\xF4\x90", "\xC0", "\xE0\x80", "\xEF\xBF\xBD"});
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(part), [](const std::vector<std::string>& parts) {
    std::string joined;
    for (const std::string& p : parts) joined += p;
    return joined;
  });
}

TEST(StreamDecoder, AnyChunkingGivesTheOneShotText) {
  EXPECT_TRUE(rc::check([] {
    const std::string bytes = *broken_text();
    StreamDecoder decoder(tiny_tokenizer());
    std::string streamed;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto size = 1 + *rc::gen::inRange<std::size_t>(0, 4);
      const std::string text = decoder.push_bytes(std::string_view(bytes).substr(at, size));
      RC_ASSERT(is_valid_utf8(text));
      RC_ASSERT(decoder.pending().size() <= 3u);
      streamed += text;
      at += size;
    }
    RC_ASSERT(streamed + decoder.finish() == repair(bytes));
    RC_ASSERT(decoder.pending().empty());
  }));
}

TEST(StreamDecoder, ReleasesACharacterAsSoonAsItIsWhole) {
  StreamDecoder decoder(tiny_tokenizer());
  EXPECT_EQ(decoder.push_bytes("a\xF0"), "a");
  EXPECT_EQ(decoder.push_bytes("\x9F\xA6"), "");
  EXPECT_EQ(decoder.push_bytes("\x99"), "🦙");
  EXPECT_EQ(decoder.push_bytes("\xC4"), "");
  EXPECT_EQ(decoder.push_bytes("x"), std::string(kReplacementCharacter) + "x");  // can no longer become one
  EXPECT_EQ(decoder.push_bytes("\x80"), kReplacementCharacter);                  // can never become one
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, RandomIdsOfBothTokenizers) {
  for (const Tokenizer* tokenizer : {&tiny_tokenizer(), deepseek_tokenizer()}) {
    if (tokenizer == nullptr) continue;
    EXPECT_TRUE(rc::check([tokenizer] {
      const auto ids = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(-1, tokenizer->vocabulary() + 1));
      StreamDecoder decoder(*tokenizer);
      std::string streamed;
      for (const int32_t id : ids) streamed += decoder.push(id);
      RC_ASSERT(streamed + decoder.finish() == tokenizer->decode(ids));
    }));
  }
}

}  // namespace
}  // namespace deepinfer
