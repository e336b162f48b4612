// Remembered masks are those that the parser would make, whatever is remembered and forgotten.
#include "grammar/mask_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

TEST(MaskMemory, KeepsWhatWasUsedLast) {
  const auto mask_of = [](uint32_t n) { return std::vector<uint32_t>(100, n); };
  MaskMemory memory(4000);  // five of them
  std::vector<uint32_t> found(100);
  for (int32_t n = 1; n <= 5; ++n) memory.keep(std::vector<int32_t>{n}, mask_of(static_cast<uint32_t>(n)));
  EXPECT_EQ(memory.stats().masks, 5);
  EXPECT_TRUE(memory.find(std::vector<int32_t>{1}, found));
  EXPECT_EQ(found, mask_of(1));
  memory.keep(std::vector<int32_t>{6}, mask_of(6));
  EXPECT_FALSE(memory.find(std::vector<int32_t>{2}, found));
  EXPECT_TRUE(memory.find(std::vector<int32_t>{1}, found));
  EXPECT_FALSE(memory.find(std::vector<int32_t>{1, 1}, found));
  EXPECT_LE(memory.stats().bytes, 4000);
}

TEST(MaskMemory, FewWordsAreKeptWithTheirPlaces) {
  MaskMemory memory(100'000);
  std::mt19937 random(3);
  for (int32_t n = 0; n < 200; ++n) {
    std::vector<uint32_t> mask(1 + random() % 300), found(mask.size());
    for (unsigned i = random() % 30; i > 0; --i) mask[random() % mask.size()] = static_cast<uint32_t>(random());
    memory.keep(std::vector<int32_t>{n}, mask);
    ASSERT_TRUE(memory.find(std::vector<int32_t>{n}, found));
    EXPECT_EQ(found, mask);
  }
}

// Walks through the same grammars with a large memory, one that forgets all the time, and none.
TEST(MaskMemory, ChangesNoMask) {
  std::vector<GrammarSpec> specs;
  std::ifstream in(std::string(DEEPINFER_TEST_DATA) + "/grammar/tool_schemas.jsonl");
  for (std::string line; std::getline(in, line);) {
    if (specs.size() < 40)
      specs.push_back(spec_of(GrammarSpec::Kind::kJsonSchema, nlohmann::ordered_json::parse(line)["schema"].dump()));
  }
  // Ambiguous, left and right recursive, and deep.
  for (const char* ebnf : {"root ::= root \"a\" | \"b\" | root root \"c\"", "root ::= \"(\" root* \")\" | [a-z]+ root?",
                           "root ::= x y\nx ::= \"a\"* \ny ::= (\"a\" y | \"b\"){0,40}",
                           "root ::= \"x\" (\"ab\" | \"a\" \"b\" root | \"abc\"?){3,9}"})
    specs.push_back(spec_of(GrammarSpec::Kind::kEbnf, ebnf));
  specs.push_back(spec_of(GrammarSpec::Kind::kJsonSchema, "{}"));
  GrammarCompilerOptions options[3];
  options[1].mask_bytes = 4096;
  options[2].mask_bytes = 0;
  std::unique_ptr<GrammarCompiler> compilers[3];
  for (int i = 0; i < 3; ++i) compilers[i] = GrammarCompiler::create(tiny_vocabulary(), options[i]).value();
  std::mt19937 random(11);
  for (const GrammarSpec& spec : specs) {
    SharedGrammar grammars[3];
    for (int i = 0; i < 3; ++i) grammars[i] = compilers[i]->compile(spec).wait().value();
    for (int walk = 0; walk < 4; ++walk) {
      std::vector<GrammarMatcher> matchers;
      for (const SharedGrammar& grammar : grammars)
        matchers.push_back(GrammarMatcher::create(grammar, spec, std::span(&kTinyStop, 1)).value());
      std::vector<uint32_t> masks[3];
      for (auto& mask : masks) mask.resize(matchers[0].mask_words());
      for (int step = 0; step < 40 && !matchers[0].is_terminated(); ++step) {
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(matchers[static_cast<size_t>(i)].fill_mask(masks[i]).ok());
        ASSERT_EQ(masks[0], masks[2]) << spec.text << ", step " << step;
        ASSERT_EQ(masks[1], masks[2]) << spec.text << ", step " << step;
        std::vector<int32_t> tokens;
        for (int32_t token = 0; token < grammars[0]->vocabulary(); ++token)
          if (masks[0][static_cast<size_t>(token / 32)] >> (token % 32) & 1) tokens.push_back(token);
        const int32_t token = tokens[random() % tokens.size()];
        for (GrammarMatcher& matcher : matchers) ASSERT_TRUE(matcher.accept(token));
      }
    }
  }
  const GrammarCacheStats stats = compilers[0]->cache_stats();
  EXPECT_GT(stats.mask_hits, stats.mask_misses / 4);
  EXPECT_GT(compilers[1]->cache_stats().mask_misses, 0);
  EXPECT_LE(compilers[1]->cache_stats().mask_bytes, 4096);
  EXPECT_EQ(compilers[2]->cache_stats().mask_misses, 0);
}

}  // namespace
}  // namespace deepinfer
