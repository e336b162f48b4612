// What callers rely on: segments of a prompt, threads, and the cases that went wrong elsewhere.
#include "text/tokenizer.h"

#include <rapidcheck.h>

#include <random>
#include <thread>

#include "text/stream_decoder.h"
#include "text/utf8.h"
#include "tokenizer_files.h"

namespace deepinfer {
namespace {

using Ids = std::vector<int32_t>;

std::vector<ByteRange> ranges(const nlohmann::json& special) {
  std::vector<ByteRange> result;
  for (const auto& range : special) result.push_back({range.at(0).get<std::size_t>(), range.at(1).get<std::size_t>()});
  return result;
}

TEST(Tokenizer, PromptsOfTheEncodingGoldens) {
  int prompts = 0;
  for (const char* file : {"chat_completions", "responses", "messages"}) {
    for (const auto& row : read_json_rows(std::string("encoding/") + file + ".jsonl")) {
      if (!row.contains("tiny_ids")) continue;
      Ids ids;
      const Status status =
          tiny_tokenizer().encode_segments(row.at("prompt").get<std::string>(), ranges(row.at("special")), ids);
      ASSERT_TRUE(status.ok()) << row.at("name") << status.to_string();
      ASSERT_EQ(ids, row.at("tiny_ids").get<Ids>()) << row.at("name");
      ++prompts;
    }
  }
  EXPECT_GT(prompts, 400);
}

TEST(Tokenizer, SegmentsRefuseWrongRanges) {
  const std::string text = "a<think>b";
  Ids ids = {42};
  const auto fails = [&](std::vector<ByteRange> special, const char* message) {
    const Status status = tiny_tokenizer().encode_segments(text, special, ids);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_EQ(ids, Ids{42});
  };
  fails({{1, 10}}, "inside the text's 9 bytes");
  fails({{1, 1}}, "non-empty");
  fails({{1, 8}, {1, 8}}, "behind 8");
  fails({{0, 8}}, "\"a<think>\" is not a special token");
  fails({{0, 1}}, "\"a\" is not a special token");  // an ordinary token is no special one
  const std::vector<ByteRange> right = {{1, 8}};
  ASSERT_TRUE(tiny_tokenizer().encode_segments(text, right, ids).ok());
  EXPECT_EQ(ids, (Ids{42, tiny_tokenizer().id("a").value(), 6, tiny_tokenizer().id("b").value()}));
}

// O-09: digits go in groups of one to three, from the left, also right behind letters.
TEST(OpenCases, O09DigitsInGroupsOfThree) {
  const auto pieces = [](const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::string> result;
    for (const int32_t id : encode_plain(tokenizer, text)) result.emplace_back(tokenizer.bytes(id));
    return result;
  };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(encode_plain(tiny_tokenizer(), "rfid501.go"), (Ids{104, 92, 437, 907, 39, 36, 843}));
  EXPECT_EQ(encode_plain(tiny_tokenizer(), "1234567"), (Ids{1128, 41, 1609, 44, 45}));
  EXPECT_EQ(encode_plain(tiny_tokenizer(), "a1b22c333d4444"), (Ids{87, 39, 88, 1431, 89, 1419, 41, 90, 1768, 42, 42}));
  EXPECT_EQ(encode_plain(tiny_tokenizer(), "１２３４５ 3.14159 ٣٤٥٦ ½¾"),
            (Ids{194,  143, 262,  194, 143, 263, 194, 143, 264, 194, 143, 265, 194, 143, 266, 243, 41, 36,
                 1170, 39,  1852, 243, 172, 119, 172, 120, 172, 121, 172, 122, 243, 149, 144, 149, 145}));
  DEEPINFER_NEEDS_DEEPSEEK_TOKENIZER();
  const Tokenizer& deepseek = *deepseek_tokenizer();
  EXPECT_EQ(encode_plain(deepseek, "rfid501.go"), (Ids{35305, 329, 19097, 68082}));
  EXPECT_EQ(encode_plain(deepseek, "1234567"), (Ids{6895, 18009, 25}));
  EXPECT_EQ(encode_plain(deepseek, "a1b22c333d4444"), (Ids{67, 19, 68, 1302, 69, 11722, 70, 18966, 22}));
  EXPECT_EQ(encode_plain(deepseek, "１２３４５ 3.14159 ٣٤٥٦ ½¾"),
            (Ids{127167, 25081, 33095, 31953, 223, 21,  16,  9926, 3318,  223,
                 127056, 152,   100,   152,   101, 152, 102, 223,  23951, 69086}));
  EXPECT_EQ(pieces(deepseek, "1234567"), (Pieces{"123", "456", "7"}));
}

// O-10: the tokenizer never adds a begin-of-sentence token of its own, so a text has as many as it spells.
TEST(OpenCases, O10NoTokenIsAdded) {
  const Tokenizer& tiny = tiny_tokenizer();
  const std::string bos = "<｜begin▁of▁sentence｜>";
  const auto count = [](const Ids& ids) { return std::count(ids.begin(), ids.end(), 0); };
  ASSERT_EQ(tiny.added_id(bos), 0);
  EXPECT_EQ(count(encode(tiny, bos + "hi")), 1);
  EXPECT_EQ(count(encode(tiny, bos + bos + "hi")), 2);
  EXPECT_EQ(count(encode(tiny, "hi")), 0);
  EXPECT_EQ(count(encode_plain(tiny, bos + "hi")), 0);
  EXPECT_EQ(encode(tiny, ""), Ids{});
  Ids ids;
  const std::vector<ByteRange> special = {{0, bos.size()}};
  ASSERT_TRUE(tiny.encode_segments(bos + bos + "hi", special, ids).ok());
  EXPECT_EQ(count(ids), 1);  // the second one came from a user
}

// O-11: a character that comes in several tokens is never torn.
TEST(OpenCases, O11StreamedCharactersAreWhole) {
  const std::string text = "🦙 ď 語 👩‍👩‍👧‍👦 naïve Ж ก็ 𝔸 \u0301";
  for (const Tokenizer* tokenizer : {&tiny_tokenizer(), deepseek_tokenizer()}) {
    if (tokenizer == nullptr) continue;
    // As the tokenizer cuts it, and byte by byte, the hardest case.
    Ids bytes;
    for (const char byte : text) bytes.push_back(tokenizer->id({&byte, 1}).value());
    for (const Ids& ids : {encode_plain(*tokenizer, text), bytes}) {
      StreamDecoder decoder(*tokenizer);
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string part = decoder.push(id);
        EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
        streamed += part;
      }
      EXPECT_EQ(streamed, text);
      EXPECT_EQ(decoder.finish(), "");
    }
    // Bytes that really are broken show as U+FFFD, in the stream as in one go.
    const Ids broken = {bytes[0], bytes[1], tokenizer->id("a").value(), bytes[2]};
    StreamDecoder decoder(*tokenizer);
    std::string streamed;
    for (const int32_t id : broken) streamed += decoder.push(id);
    EXPECT_EQ(streamed + decoder.finish(), "\uFFFDa\uFFFD");
    EXPECT_EQ(tokenizer->decode(broken), "\uFFFDa\uFFFD");
  }
}

std::string long_text(std::size_t size) {
  static const std::vector<std::string> words = {"the ",      "answer", " is", " 42",    ".\n",    "\n\n",    "    ",
                                                 "return x;", "中文",   "・",  "。",     "🦙",   "1234",    "é",
                                                 "\t",        "--",     "_id", "\u200B", "日本語", "“quoted”"};
  std::mt19937 random(7);
  std::string text;
  while (text.size() < size) text += words[random() % words.size()];
  return text;
}

TEST(Tokenizer, ThreadsDoNotChangeTheIds) {
  const std::string text = long_text(1 << 20);
  const Tokenizer& tiny = tiny_tokenizer();
  const Ids one = encode_plain(tiny, text, 1);
  EXPECT_EQ(tiny.decode(one), text);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(encode_plain(tiny, text, threads), one) << threads;
  std::string chinese;
  while (chinese.size() < (1 << 20)) chinese += "一個很長的句子";
  EXPECT_EQ(encode_plain(tiny, chinese, 4), encode_plain(tiny, chinese, 1));  // nowhere to cut
}

TEST(Tokenizer, ManyCallersAtOnce) {
  const std::string text = long_text(20'000);
  const Ids expected = encode_plain(tiny_tokenizer(), text);
  std::vector<std::jthread> callers;
  std::array<bool, 4> equal{};
  for (std::size_t i = 0; i < equal.size(); ++i) {
    callers.emplace_back([&, i] {
      bool all = true;
      for (int round = 0; round < 10; ++round) {
        Ids ids;
        all = all && tiny_tokenizer().encode_plain(text, ids).ok() && ids == expected;
      }
      equal[i] = all;
    });
  }
  callers.clear();
  for (const bool e : equal) EXPECT_TRUE(e);
}

TEST(Tokenizer, HostileTextsRoundTrip) {
  for (const Tokenizer* tokenizer : {&tiny_tokenizer(), deepseek_tokenizer()}) {
    if (tokenizer == nullptr) continue;
    for (const std::string unit : {"a", " ", "7", "\n", "🦙", "<", "<｜", "中", "\u0301", "=", "\t ", "a\u0301"}) {
      std::string text;
      while (text.size() < (1 << 17)) text += unit;
      EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), text) << unit;
    }
  }
}

TEST(Tokenizer, AnyTextRoundTrips) {
  EXPECT_TRUE(rc::check([] {
    const auto code_points = *rc::gen::container<std::vector<std::uint32_t>>(
        rc::gen::weightedOneOf<std::uint32_t>({{3, rc::gen::inRange<std::uint32_t>(0, 128)},
                                               {1, rc::gen::inRange<std::uint32_t>(128, 0xD800)},
                                               {1, rc::gen::inRange<std::uint32_t>(0xE000, 0x110000)}}));
    std::string text;
    for (const std::uint32_t c : code_points) append_utf8(c, text);
    RC_ASSERT(tiny_tokenizer().decode(encode_plain(tiny_tokenizer(), text)) == text);
    RC_ASSERT(tiny_tokenizer().decode(encode(tiny_tokenizer(), text)) == text);
  }));
}

}  // namespace
}  // namespace deepinfer
