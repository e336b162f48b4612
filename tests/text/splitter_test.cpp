// DeepSeek's scanner against PCRE2 running the expressions themselves; the general splitter's behaviours and limits.
#include "text/splitter.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <random>
#include <set>

#include "text/deepseek_splitter.h"
#include "text/regex_splitter.h"
#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

std::unique_ptr<Splitter> regex_splitter(const std::vector<SplitRule>& rules) {
  auto splitter = RegexSplitter::create(rules);
  EXPECT_TRUE(splitter.ok()) << splitter.status().to_string();
  return splitter.ok() ? std::move(splitter).value() : nullptr;
}

std::vector<std::string> split(const Splitter& splitter, std::string_view text) {
  std::vector<std::string> parts;
  const Status status = splitter.split(text, [&](std::span<const Piece> pieces) {
    for (const Piece piece : pieces) parts.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return parts;
}

std::string utf8(char32_t c) {
  std::string text;
  append_utf8(c, text);
  return text;
}

// Characters that PCRE2's and utf8proc's tables (different Unicode versions) put into different classes.
const std::set<char32_t>& disputed() {
  static const std::set<char32_t> result = [] {
    std::string all;
    std::vector<std::uint32_t> starts;
    std::vector<char32_t> code_points;
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      starts.push_back(static_cast<std::uint32_t>(all.size()));
      code_points.push_back(c);
      append_utf8(c, all);
    }
    std::set<char32_t> differ;
    const std::vector<std::pair<const char*, std::set<CharClass>>> classes = {
        {R"([^\p{L}])", {CharClass::kLetter}},
        {R"([^\p{M}])", {CharClass::kMark}},
        {R"([^\p{N}])", {CharClass::kNumber}},
        {R"([^\p{P}\p{S}])", {CharClass::kSymbol}},
        {R"(\S)", {CharClass::kSpace, CharClass::kNewline}},
    };
    for (const auto& [pattern, expected] : classes) {
      std::vector<bool> kept(all.size() + 1);
      const auto splitter =
          regex_splitter({{.pattern = pattern, .behavior = SplitBehavior::kRemoved, .field = "test"}});
      const Status status = splitter->split(all, [&](std::span<const Piece> pieces) {
        for (const Piece piece : pieces) std::fill(kept.begin() + piece.begin, kept.begin() + piece.end, true);
      });
      EXPECT_TRUE(status.ok());
      for (std::size_t i = 0; i < code_points.size(); ++i) {
        if (kept[starts[i]] != expected.contains(char_class(code_points[i]))) differ.insert(code_points[i]);
      }
    }
    return differ;
  }();
  return result;
}

TEST(UnicodeClasses, AgreeWithPcre2ButForNewCharacters) {
  // Two neighbouring Unicode versions differ by some thousand new characters, none of them in the older blocks.
  EXPECT_LT(disputed().size(), 12'000u);
  for (const char32_t c : disputed()) EXPECT_GE(static_cast<std::uint32_t>(c), 0x0C00u);
}

TEST(DeepSeekSplitter, IsChosenForItsRulesOnly) {
  EXPECT_NE(dynamic_cast<DeepSeekSplitter*>(make_splitter(DeepSeekSplitter::rules()).value().get()), nullptr);
  for (int change = 0; change < 5; ++change) {
    auto rules = DeepSeekSplitter::rules();
    if (change == 0) rules[0].pattern = R"(\p{N}{1,4})";
    if (change == 1) rules[1].invert = true;
    if (change == 2) rules[2].behavior = SplitBehavior::kRemoved;
    if (change == 3) rules.pop_back();
    if (change == 4) std::swap(rules[0], rules[1]);
    EXPECT_NE(dynamic_cast<RegexSplitter*>(make_splitter(rules).value().get()), nullptr) << change;
  }
}

TEST(DeepSeekSplitter, Examples) {
  const DeepSeekSplitter splitter;
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split(splitter, ""), Parts{});
  EXPECT_EQ(split(splitter, "Hello world"), (Parts{"Hello", " world"}));
  EXPECT_EQ(split(splitter, "1234567"), (Parts{"123", "456", "7"}));
  EXPECT_EQ(split(splitter, ".naïve"), (Parts{".na", "ïve"}));
  EXPECT_EQ(split(splitter, "  a\n\n b"), (Parts{" ", " a", "\n\n", " b"}));
  EXPECT_EQ(split(splitter, "中文・テスト。"), (Parts{"中文", "・", "テスト", "。"}));
  EXPECT_EQ(split(splitter, "x += 1;\n\ty"), (Parts{"x", " +=", " ", "1", ";\n", "\ty"}));
}

// One representative for each way a character can behave, in all short texts.
TEST(DeepSeekSplitter, EqualsPcre2OnAllShortTexts) {
  const std::vector<std::string> alphabet = {"a", "é",  "\u0301", "1",      "½",  ".",  "€",      "\n",    "\r",
                                             " ", "\t", "\u00A0", "\u200B", "中", "・", "\u3099", "\u3040"};
  const DeepSeekSplitter scanner;
  const auto regex = regex_splitter(DeepSeekSplitter::rules());
  std::size_t texts = 0;
  for (std::size_t length = 1; length <= 4; ++length) {
    std::vector<std::size_t> digits(length);
    for (;;) {
      std::string text;
      for (const std::size_t digit : digits) text += alphabet[digit];
      ASSERT_EQ(split(scanner, text), split(*regex, text)) << ::testing::PrintToString(text);
      ++texts;
      std::size_t place = 0;
      while (place < length && ++digits[place] == alphabet.size()) digits[place++] = 0;
      if (place == length) break;
    }
  }
  EXPECT_EQ(texts, 17u + 17 * 17 + 17 * 17 * 17 + 17 * 17 * 17 * 17);
}

rc::Gen<std::string> any_text() {
  static const std::vector<std::string> common = {
      "a",      "Z",      "word",   "é",    "\u0301", "\u0300",     "0",      "12",         "１",     "½",
      "Ⅷ",      ".",      "'",      "(((",  "_",      "<",          "€",      "…",          "\n",     "\r\n",
      "\r",     " ",      "  ",     "\t",   "\v",     "\f",         "\u0085", "\u00A0",     "\u180E", "\u2028",
      "\u3000", "\u200B", "\uFEFF", "\x01", "\x1F",   "\x7F",       "中",     "文字",       "一",     "龥",
      "\u9FA6", "ひ",     "カ",     "・",   "\u3040", "\u3099",     "\u309B", "゠",         "ー",     "々",
      "。",     "，",     "ｱ",      "한",   "ש",      "ไ",          "\u0E31", "क",          "\u094D", "🦙",
      "\u200D", "👩",      "\uFE0F", "𝔸",    "𠀀",     "\U000E0041", "\uE000", "\U0010FFFF", "\uFFFD"};
  const auto rare = rc::gen::map(rc::gen::inRange<std::uint32_t>(0, 0x110000), [](std::uint32_t c) {
    return (c >= 0xD800 && c < 0xE000) || disputed().contains(c) ? std::string("x") : utf8(c);
  });
  const auto part = rc::gen::weightedOneOf<std::string>({{8, rc::gen::elementOf(common)}, {1, rare}});
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(part), [](const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& p : parts) text += p;
    return text;
  });
}

TEST(DeepSeekSplitter, EqualsPcre2OnRandomTexts) {
  const DeepSeekSplitter scanner;
  const auto regex = regex_splitter(DeepSeekSplitter::rules());
  EXPECT_TRUE(rc::check([&] {
    for (int i = 0; i < 40; ++i) {
      const std::string text = *any_text();
      RC_ASSERT(split(scanner, text) == split(*regex, text));
    }
  }));
}

TEST(DeepSeekSplitter, EqualsPcre2OnLongRandomTexts) {
  const DeepSeekSplitter scanner;
  const auto regex = regex_splitter(DeepSeekSplitter::rules());
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    // Runs of characters of one neighbourhood, long enough for the vector paths.
    for (int run = 0; run < 300; ++run) {
      static constexpr char32_t kFirst[] = {'a',    'A',    '0',    ' ',    '!',     0xC0,   0x300,
                                            0x4E00, 0x3040, 0x3099, 0xFF10, 0x1F600, 0x2000, '\n'};
      const char32_t first = kFirst[random() % std::size(kFirst)];
      const std::uint32_t width = 1 + random() % 12;
      for (std::uint32_t i = random() % 40; i > 0; --i) {
        const char32_t c = first + random() % width;
        if (!disputed().contains(c)) append_utf8(c, text);
      }
    }
    ASSERT_EQ(split(scanner, text), split(*regex, text));
  }
}

TEST(DeepSeekSplitter, CutsAtSafePlacesOnly) {
  const DeepSeekSplitter splitter;
  EXPECT_TRUE(rc::check([&] {
    const std::string text = *any_text();
    const std::size_t from = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
    const std::size_t cut = splitter.safe_cut(text, from);
    RC_ASSERT(cut >= from && cut <= text.size());
    auto halves = split(splitter, std::string_view(text).substr(0, cut));
    const auto rest = split(splitter, std::string_view(text).substr(cut));
    halves.insert(halves.end(), rest.begin(), rest.end());
    RC_ASSERT(halves == split(splitter, text));
  }));
  EXPECT_EQ(splitter.safe_cut("one two three", 1), 3u);
  EXPECT_EQ(splitter.safe_cut("中文，好", 0), 6u);
}

TEST(RegexSplitter, Behaviours) {
  // The examples of Hugging Face's documentation: "the-final--countdown" cut at "-".
  const auto parts = [](SplitBehavior behavior, bool invert = false) {
    return split(*regex_splitter({{.pattern = "-", .behavior = behavior, .invert = invert, .field = "f"}}),
                 "the-final--countdown");
  };
  using Parts = std::vector<std::string>;
  EXPECT_EQ(parts(SplitBehavior::kRemoved), (Parts{"the", "final", "countdown"}));
  EXPECT_EQ(parts(SplitBehavior::kIsolated), (Parts{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(parts(SplitBehavior::kMergedWithPrevious), (Parts{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(parts(SplitBehavior::kMergedWithNext), (Parts{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(parts(SplitBehavior::kContiguous), (Parts{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(parts(SplitBehavior::kRemoved, true), (Parts{"-", "-", "-"}));
}

TEST(RegexSplitter, LiteralPatternsAndEmptyMatches) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split(*regex_splitter({{.pattern = "a.c", .literal = true, .field = "f"}}), "abca.c"),
            (Parts{"abc", "a.c"}));
  EXPECT_EQ(split(*regex_splitter({{.pattern = "x*", .field = "f"}}), "añxxb"), (Parts{"a", "ñ", "xx", "b"}));
  EXPECT_EQ(split(*regex_splitter({{.pattern = R"(\w+|\s)", .field = "f"}}), "é_1\u0085x"),
            (Parts{"é_1", "\u0085", "x"}));
}

TEST(RegexSplitter, RefusesWhatItCannotHonour) {
  for (const char* pattern :
       {"", "(", R"(\bword)", R"(\h)", R"([a[bc]])", R"([a&&b])", R"(a{1,3}+)", R"(\1)", R"([\W])", "[^]a]"}) {
    const auto splitter = RegexSplitter::create({{.pattern = pattern, .field = "pre_tokenizer.pretokenizers[3]"}});
    ASSERT_FALSE(splitter.ok()) << pattern;
    EXPECT_EQ(splitter.status().code(), StatusCode::kUnsupported);
    EXPECT_NE(splitter.status().message().find("pre_tokenizer.pretokenizers[3].pattern"), std::string::npos)
        << splitter.status().message();
  }
}

TEST(RegexSplitter, GivesUpOnACatastrophicExpression) {
  const auto splitter = regex_splitter({{.pattern = "(a|a|aa)+$", .field = "pre_tokenizer"}});
  const std::string text = std::string(5000, 'a') + "b";
  const Status status = splitter->split(text, [](std::span<const Piece>) {});
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("pre_tokenizer.pattern"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace deepinfer
