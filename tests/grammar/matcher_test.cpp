// GrammarMatcher: trigger and bound tokens, stop tokens, rollback, drafts; and masks against acceptance.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "byte_vocabulary.h"
#include "grammar/codepoint_set.h"
#include "grammar/grammar_matcher.h"

namespace deepinfer {
namespace {

using Kind = GrammarSpec::Kind;

class Matcher : public ::testing::Test {
 protected:
  Matcher() : compiler_(GrammarCompiler::create(byte_vocabulary()).value()) {}

  GrammarMatcher make(const GrammarSpec& spec) {
    const Result<SharedGrammar> grammar = compiler_->compile(spec).wait();
    EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
    return GrammarMatcher::create(grammar.value(), spec, std::span(&kByteStop, 1)).value();
  }
  static std::vector<int32_t> allowed(GrammarMatcher& matcher) {
    std::vector<uint32_t> mask(matcher.mask_words());
    const Status status = matcher.fill_mask(mask);
    EXPECT_TRUE(status.ok()) << status.to_string();
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < 257; ++token)
      if (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) tokens.push_back(token);
    return tokens;
  }
  static void accept_all(GrammarMatcher& matcher, std::string_view text) {
    for (const char byte : text) ASSERT_TRUE(matcher.accept(static_cast<uint8_t>(byte))) << text;
  }

  std::unique_ptr<GrammarCompiler> compiler_;
};

TEST_F(Matcher, StopTokensAreAllowedWhereTheGrammarEnds) {
  GrammarMatcher matcher = make(spec_of(Kind::kRegex, "ab?"));
  EXPECT_EQ(allowed(matcher), std::vector<int32_t>{'a'});
  EXPECT_FALSE(matcher.accept(kByteStop));
  accept_all(matcher, "a");
  EXPECT_EQ(allowed(matcher), (std::vector<int32_t>{'b', kByteStop}));
  EXPECT_FALSE(matcher.accept('c'));
  ASSERT_TRUE(matcher.accept(kByteStop));
  EXPECT_TRUE(matcher.is_terminated());
  EXPECT_EQ(allowed(matcher).size(), 257u);  // behind the end everything is allowed
  EXPECT_TRUE(matcher.accept('z'));
  matcher.rollback(2);
  EXPECT_FALSE(matcher.is_terminated());
  EXPECT_EQ(allowed(matcher), (std::vector<int32_t>{'b', kByteStop}));
}

TEST_F(Matcher, TriggerStartsTheGrammar) {
  GrammarSpec spec = spec_of(Kind::kRegex, "[0-9]+");
  spec.trigger_token_ids = {'a', 'b', 'a', 'c'};
  GrammarMatcher matcher = make(spec);
  accept_all(matcher, "xxabab");
  EXPECT_FALSE(matcher.started());
  EXPECT_EQ(allowed(matcher).size(), 257u);
  accept_all(matcher, "ac");
  EXPECT_TRUE(matcher.started());
  EXPECT_EQ(allowed(matcher).size(), 10u);
  accept_all(matcher, "12");
  matcher.rollback(4);
  EXPECT_FALSE(matcher.started());
  accept_all(matcher, "ac7");
  EXPECT_EQ(allowed(matcher).size(), 11u);
}

TEST_F(Matcher, BoundTokenForcesTheTrigger) {
  GrammarSpec spec = spec_of(Kind::kRegex, "[0-9]");
  spec.trigger_token_ids = {'<', 'e', '>'};
  spec.bound_token_id = '!';
  GrammarMatcher matcher = make(spec);
  accept_all(matcher, "thinking!");
  EXPECT_EQ(allowed(matcher), std::vector<int32_t>{'<'});
  EXPECT_FALSE(matcher.accept('x'));
  accept_all(matcher, "<e");
  EXPECT_EQ(allowed(matcher), std::vector<int32_t>{'>'});
  accept_all(matcher, ">");
  EXPECT_EQ(allowed(matcher).size(), 10u);
  // The bound token may belong to the trigger: what is left of it is forced.
  spec.trigger_token_ids = {'<', '!', '>'};
  GrammarMatcher other = make(spec);
  accept_all(other, "ab<!");
  EXPECT_EQ(allowed(other), std::vector<int32_t>{'>'});
}

TEST_F(Matcher, MasksAlongDraftsLeaveTheMatcherWhereItWas) {
  GrammarSpec spec = spec_of(Kind::kRegex, "abc[0-9]{2}");
  spec.trigger_token_ids = {'>'};
  GrammarMatcher matcher = make(spec);
  const std::vector<int32_t> drafts{'x', '>', 'a', 'b', 'x', 'c'};
  std::vector<uint32_t> masks(matcher.mask_words() * (drafts.size() + 1));
  const Result<int> rows = matcher.masks_along(drafts, masks);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows.value(), 5);  // the fifth draft is not allowed
  EXPECT_EQ(matcher.accepted(), 0);
  EXPECT_FALSE(matcher.started());
  // Each row is what a matcher that was given those tokens says.
  GrammarMatcher solo = make(spec);
  for (int row = 0; row < rows.value(); ++row) {
    std::vector<uint32_t> mask(solo.mask_words());
    ASSERT_TRUE(solo.fill_mask(mask).ok());
    EXPECT_TRUE(std::equal(mask.begin(), mask.end(),
                           masks.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row) * mask.size())))
        << row;
    if (row + 1 == rows.value()) break;
    ASSERT_TRUE(solo.accept(drafts[static_cast<size_t>(row)]));
  }
}

TEST_F(Matcher, ClonesAreIndependent) {
  GrammarMatcher matcher = make(spec_of(Kind::kRegex, "ab|ac"));
  accept_all(matcher, "a");
  GrammarMatcher copy = matcher.clone();
  accept_all(matcher, "b");
  EXPECT_EQ(allowed(copy), (std::vector<int32_t>{'b', 'c'}));
  copy.rollback(1);
  EXPECT_EQ(allowed(copy), std::vector<int32_t>{'a'});
  EXPECT_EQ(allowed(matcher), std::vector<int32_t>{kByteStop});
}

TEST_F(Matcher, IdsOutOfTheVocabularyAreRefused) {
  GrammarSpec spec = spec_of(Kind::kRegex, "a");
  const SharedGrammar grammar = compiler_->compile(spec).wait().value();
  spec.trigger_token_ids = {257};
  EXPECT_FALSE(GrammarMatcher::create(grammar, spec, {}).ok());
  spec.trigger_token_ids = {};
  spec.bound_token_id = 3;
  EXPECT_FALSE(GrammarMatcher::create(grammar, spec, {}).ok());
  spec.bound_token_id.reset();
  GrammarMatcher matcher = GrammarMatcher::create(grammar, spec, {}).value();
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(1000));
}

// With real tokens: a mask allows exactly what accept() takes, wherever random walks lead; rollback leads back.
TEST_F(Matcher, MasksAndAcceptanceAgreeOnRandomWalks) {
  auto compiler = GrammarCompiler::create(tiny_vocabulary()).value();
  const char* const kSchemas[] = {
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"enum":["a","bc","é"]},"maxItems":3}},"required":["name"]})",
      R"({"type":"array","items":{"anyOf":[{"type":"number"},{"type":"string","pattern":"^[A-Z]{2,4}-[0-9]+$"},{"type":"null"}]},"minItems":1})",
      R"({})",
  };
  std::mt19937 random(7);
  for (const char* schema : kSchemas) {
    const GrammarSpec spec = spec_of(Kind::kJsonSchema, schema);
    const SharedGrammar grammar = compiler->compile(spec).wait().value();
    for (int walk = 0; walk < 3; ++walk) {
      GrammarMatcher matcher = GrammarMatcher::create(grammar, spec, std::span(&kTinyStop, 1)).value();
      std::vector<std::vector<uint32_t>> masks;
      for (int step = 0; step < 25 && !matcher.is_terminated(); ++step) {
        std::vector<uint32_t> mask(matcher.mask_words());
        ASSERT_TRUE(matcher.fill_mask(mask).ok());
        masks.push_back(mask);
        std::vector<int32_t> tokens;
        for (int32_t token = 0; token < grammar->vocabulary(); ++token) {
          const bool bit = (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) != 0;
          if (bit) tokens.push_back(token);
          if (step % 8 != 0) continue;
          const bool taken = matcher.accept(token);
          ASSERT_EQ(bit, taken) << token;
          if (taken) matcher.rollback(1);
        }
        ASSERT_FALSE(tokens.empty());
        ASSERT_TRUE(matcher.accept(tokens[random() % tokens.size()]));
      }
      while (matcher.accepted() > 0) {
        matcher.rollback(1);
        std::vector<uint32_t> mask(matcher.mask_words());
        ASSERT_TRUE(matcher.fill_mask(mask).ok());
        EXPECT_EQ(mask, masks[static_cast<size_t>(matcher.accepted())]);
      }
    }
  }
}

// What was compiled before, and is shared by rules, changes no mask.
TEST_F(Matcher, ClassesHaveExactlyTheirCharacters) {
  constexpr std::array<uint32_t, 20> kEdges{0x20,   0x7F,   0x80,   0x7FF,   0x800,   0xFFF,   0x1000,
                                            0x1234, 0x5678, 0xAC00, 0xCFFF,  0xD000,  0xD55C,  0xD7A3,
                                            0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F64F, 0x10FFFF};
  const auto is_character = [](uint32_t c) { return c < 0xD800 || (c > 0xDFFF && c <= 0x10FFFF); };
  std::mt19937 random(11);
  for (int round = 0; round < 120; ++round) {
    uint32_t first = kEdges[random() % kEdges.size()], last = kEdges[random() % kEdges.size()];
    if (round % 3 == 0) first = 0x80 + static_cast<uint32_t>(random() % (0xD800 - 0x80));
    if (first > last) std::swap(first, last);
    if (first <= 0xDFFF && last >= 0xD800) last = std::max<uint32_t>(first, 0xD7FF);
    std::vector<uint32_t> probes{first, last, first + 1, last + 1, last - 1, first - 1};
    for (const uint32_t edge : kEdges) probes.push_back(edge);
    for (int i = 0; i < 40; ++i) probes.push_back(first + static_cast<uint32_t>(random() % (last - first + 1)));
    std::string text = "[";
    append_utf8(first, text);
    text += "-";
    append_utf8(last, text);
    const GrammarSpec spec = spec_of(Kind::kRegex, text + "]");
    const Result<SharedGrammar> grammar = compiler_->compile(spec).wait();
    ASSERT_TRUE(grammar.ok()) << spec.text << grammar.status().to_string();
    for (const uint32_t c : probes) {
      if (!is_character(c) || c < 0x20) continue;
      std::string character;
      append_utf8(c, character);
      ASSERT_EQ(takes(grammar.value(), spec, character), c >= first && c <= last)
          << spec.text << ", U+" << std::hex << c << " in " << first << " to " << last;
    }
  }
  // Every character of JSON text.
  const GrammarSpec any = spec_of(Kind::kJsonSchema, R"({"type":"string"})");
  const SharedGrammar grammar = compiler_->compile(any).wait().value();
  for (uint32_t c = 0x20; c <= 0x10FFFF; c += c < 0x3000 || (c > 0xCF00 && c < 0xE100) ? 1 : 97) {
    if (!is_character(c) || c == '"' || c == '\\') continue;
    std::string character = "\"";
    append_utf8(c, character);
    ASSERT_TRUE(takes(grammar, any, character + "\"")) << "U+" << std::hex << c;
  }
}

// Tokens of several characters, in every state that a text comes through: the mask is what would be accepted.
TEST(MatcherOfTokens, MasksAreWhatIsAccepted) {
  auto compiler = GrammarCompiler::create(tiny_vocabulary()).value();
  const std::pair<GrammarSpec, std::string> kTexts[] = {
      {spec_of(Kind::kJsonSchema, R"({"type":"string","minLength":1,"maxLength":255})"),
       "\"Once upon a time, there was\""},
      {spec_of(Kind::kJsonSchema, R"({"type":"string","minLength":40,"maxLength":70})"),
       "\"Once upon a time, there was a small model that told stories\""},
      {spec_of(Kind::kJsonSchema, R"({"type":"string","maxLength":12})"), "\"Once \\\"upon\""},
      {spec_of(Kind::kJsonSchema, R"({"properties":{"a":{"type":"string","pattern":"^[^x]{2,90}$"},"b":{"type":"array",
        "items":{"enum":["one","two"]},"maxItems":50}},"required":["a","b"]})"),
       R"({"a": "any thing", "b": ["one", "two", "one"]})"},
      {spec_of(Kind::kRegex, "[^\n]{3,400}\n.{40}"), "What is it?\nIt is a text without another line break."},
      {spec_of(Kind::kEbnf, "root ::= \"x\" [^y\\n]{33,40} \"y\""), "xab and so on until there are enough ofy"},
      {spec_of(Kind::kEbnf, "root ::= ([a-zäöü] \" \"){40,60} end\nend ::= \"ß\" | \"zz\""), "a b ä ö c d "},
  };
  for (const auto& [spec, text] : kTexts) {
    const Result<SharedGrammar> grammar = compiler->compile(spec).wait();
    ASSERT_TRUE(grammar.ok()) << spec.text << ": " << grammar.status().to_string();
    GrammarMatcher matcher = GrammarMatcher::create(grammar.value(), spec, std::span(&kTinyStop, 1)).value();
    std::vector<uint32_t> mask(matcher.mask_words());
    std::vector<int32_t> tokens;
    ASSERT_TRUE(tiny_tokenizer().encode_plain(text, tokens).ok());
    for (const int32_t next : tokens) {
      ASSERT_TRUE(matcher.fill_mask(mask).ok());
      for (int32_t token = 0; token < tiny_tokenizer().vocabulary(); ++token) {
        const bool allowed = (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) != 0;
        const bool accepted = matcher.accept(token);
        if (accepted) matcher.rollback(1);
        ASSERT_EQ(allowed, accepted) << spec.text << ": " << tiny_tokenizer().bytes(token);
      }
      ASSERT_TRUE(matcher.accept(next)) << spec.text << ": " << tiny_tokenizer().bytes(next);
    }
  }
}

TEST_F(Matcher, MasksDoNotDependOnOtherGrammars) {
  const char* const kSchemas[] = {
      R"({"type":"string","maxLength":20})",
      R"({"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"type":"string"}},"required":["a"]})",
      R"({"type":"array","items":{"type":"string","maxLength":9}})",
      R"({"type":"object","additionalProperties":{"type":"string","maxLength":20}})",
      R"({"type":"array","items":{"type":["string","integer"]}})",
  };
  const char* const kTexts[] = {R"("hello world)", R"({"a":"red green","b":"x"})", R"(["alpha","beta"])",
                                R"({"key":"value"})", R"(["a",12])"};
  auto shared = GrammarCompiler::create(tiny_vocabulary()).value();
  for (const char* schema : kSchemas)
    ASSERT_TRUE(shared->compile(spec_of(Kind::kJsonSchema, schema, false)).wait().ok());
  for (size_t i = 0; i < std::size(kSchemas); ++i) {
    const GrammarSpec spec = spec_of(Kind::kJsonSchema, kSchemas[i]);
    auto fresh = GrammarCompiler::create(tiny_vocabulary()).value();
    GrammarMatcher a =
        GrammarMatcher::create(shared->compile(spec).wait().value(), spec, std::span(&kTinyStop, 1)).value();
    GrammarMatcher b =
        GrammarMatcher::create(fresh->compile(spec).wait().value(), spec, std::span(&kTinyStop, 1)).value();
    std::vector<int32_t> tokens;
    ASSERT_TRUE(tiny_tokenizer().encode(kTexts[i], tokens).ok());
    for (const int32_t token : tokens) {
      std::vector<uint32_t> mask_a(a.mask_words()), mask_b(b.mask_words());
      ASSERT_TRUE(a.fill_mask(mask_a).ok());
      ASSERT_TRUE(b.fill_mask(mask_b).ok());
      ASSERT_EQ(mask_a, mask_b) << kSchemas[i];
      ASSERT_TRUE(a.accept(token)) << kTexts[i];
      ASSERT_TRUE(b.accept(token));
    }
  }
}

// Runs of characters at and around the lengths where they are made in different ways.
TEST_F(Matcher, CountsAreExact) {
  for (const auto& [least, most] : std::vector<std::pair<int, int>>{
           {0, 3}, {5, 5}, {0, 64}, {3, 65}, {0, 100}, {40, 90}, {70, 70}, {33, -1}, {70, -1}}) {
    std::string bounds = std::to_string(least);
    bounds.push_back(',');
    if (most >= 0) bounds += std::to_string(most);
    const auto counted = [&](std::string text) { return text.append("{").append(bounds).append("}"); };
    std::string schema = R"({"type":"string","minLength":)" + std::to_string(least);
    if (most >= 0) schema.append(",\"maxLength\":").append(std::to_string(most));
    schema += "}";
    for (const GrammarSpec& spec :
         {spec_of(Kind::kRegex, counted("x")), spec_of(Kind::kRegex, counted("(xy|z)")),
          spec_of(Kind::kEbnf, counted("root ::= [a-z]")), spec_of(Kind::kJsonSchema, schema)}) {
      const Result<SharedGrammar> grammar = compiler_->compile(spec).wait();
      ASSERT_TRUE(grammar.ok()) << spec.text << grammar.status().to_string();
      for (int length = 0; length < 110; ++length) {
        std::string text;
        for (int i = 0; i < length; ++i) text += spec.text[0] != '(' ? "x" : i % 3 == 0 ? "z" : "xy";
        if (spec.kind == Kind::kJsonSchema) text.insert(0, 1, '"').push_back('"');
        EXPECT_EQ(takes(grammar.value(), spec, text), length >= least && (most < 0 || length <= most))
            << spec.text << " " << length;
      }
    }
  }
}

}  // namespace
}  // namespace deepinfer
