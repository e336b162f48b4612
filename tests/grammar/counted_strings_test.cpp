// Strings of more than 64 characters, whose lengths the parser counts: along answers, at every place, the mask allows
// exactly the tokens behind which a valid string can still come.  What is valid is decided here, byte by byte.
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

struct Lengths {
  const char* keywords;
  int64_t least, most;  // characters; most -1: any number
};
std::ostream& operator<<(std::ostream& out, const Lengths& lengths) {
  return out << lengths.keywords;
}

// Whether a JSON string of plain characters with such a length begins with `text`.
bool begins_a_string(const std::string& text, const Lengths& lengths) {
  if (text.empty()) return true;
  if (text[0] != '"') return false;
  int64_t characters = 0;
  for (size_t i = 1; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead == '"') return characters >= lengths.least && i + 1 == text.size();
    if (lead < 0x20 || lead == '\\' || (lead >= 0x80 && lead < 0xC2) || lead > 0xF4) return false;
    if (++characters > lengths.most && lengths.most >= 0) return false;
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    for (size_t k = 1; k < bytes && i + k < text.size(); ++k) {
      const auto byte = static_cast<uint8_t>(text[i + k]);
      const int least = k > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
      const int most = k > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
      if (byte < least || byte > most) return false;
    }
    i += bytes;
  }
  return true;
}

// First bytes whose second bytes are not all that follow others.
const char* const kLeads[] = {"", "\xC2", "\xE0", "\xED", "\xF0", "\xF4"};

class CountedStrings : public testing::TestWithParam<Lengths> {};

TEST_P(CountedStrings, MasksAllowExactlyWhatCanGoOn) {
  const Lengths& lengths = GetParam();
  const auto compiler = GrammarCompiler::create(tiny_vocabulary(), {}).value();
  const GrammarSpec spec = spec_of(GrammarSpec::Kind::kJsonSchema, lengths.keywords);
  const SharedGrammar grammar = compiler->compile(spec).wait().value();
  const GrammarVocabulary vocabulary = tiny_vocabulary();
  std::mt19937 random(5);
  std::vector<uint32_t> mask;
  int ended = 0;
  for (int walk = 0; walk < 6; ++walk) {  // later ones find masks of earlier ones, at other counts
    GrammarMatcher matcher = GrammarMatcher::create(grammar, spec, std::span(&kTinyStop, 1)).value();
    mask.resize(matcher.mask_words());
    std::string text;
    while (!matcher.may_end() && text.size() < 400) {
      ASSERT_TRUE(matcher.fill_mask(mask).ok());
      std::vector<int32_t> allowed;
      for (int32_t token = 0; token < grammar->vocabulary(); ++token) {
        const std::string bytes(vocabulary.tokens[static_cast<size_t>(token)]);
        const bool allows = (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) != 0;
        ASSERT_EQ(allows, !bytes.empty() && begins_a_string(text + bytes, lengths))
            << "behind " << text << " the token " << bytes;
        if (allows) allowed.push_back(token);
      }
      int32_t token = allowed[random() % allowed.size()];
      const std::string wanted = text.empty() ? "\"" : text == "\"" ? kLeads[walk] : "";
      for (const int32_t other : allowed)
        if (!wanted.empty() && vocabulary.tokens[static_cast<size_t>(other)] == wanted) token = other;
      ASSERT_TRUE(matcher.accept(token));
      text += vocabulary.tokens[static_cast<size_t>(token)];
    }
    ended += matcher.may_end();
  }
  if (lengths.most >= 0) {
    EXPECT_EQ(ended, 6);
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, CountedStrings,
                         testing::Values(Lengths{R"({"type":"string","maxLength":65})", 0, 65},
                                         Lengths{R"({"type":"string","maxLength":100})", 0, 100},
                                         Lengths{R"({"type":"string","maxLength":250})", 0, 250},
                                         Lengths{R"({"type":"string","minLength":66,"maxLength":66})", 66, 66},
                                         Lengths{R"({"type":"string","minLength":80,"maxLength":100})", 80, 100},
                                         Lengths{R"({"type":"string","minLength":3,"maxLength":180})", 3, 180},
                                         Lengths{R"({"type":"string","minLength":70})", 70, -1}));

}  // namespace
}  // namespace deepinfer
