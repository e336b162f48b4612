// Primes, multipliers and table rows against the published numbers, and the folding of token texts.
#include "models/deepseek_v41/engram_hash.h"

#include <gtest/gtest.h>

#include "models/deepseek_v41/engram_token_map.h"
#include "models/test_configs.h"
#include "ops/golden_entry.h"

namespace deepinfer::deepseek_v41 {
namespace {

// A map in which class k is the class of token k, as far as classes go; pad (2) has class 2.
EngramHash identity_hash(const Config& c) {
  std::vector<int32_t> classes(static_cast<size_t>(c.vocab_size));
  for (size_t i = 0; i < classes.size(); ++i)
    classes[i] = static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(i), c.engram_compressed_vocab_size - 1));
  return EngramHash::make(c, classes).value();
}

using Numbers = std::vector<int64_t>;

Numbers numbers(std::span<const int64_t> values) {
  return {values.begin(), values.end()};
}

TEST(EngramHash, PrimesAndMultipliersOfTheReleasedModel) {
  const EngramHash hash = identity_hash(config_of(flash_json()));
  EXPECT_EQ(numbers(hash.multipliers(0)), (Numbers{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(numbers(hash.multipliers(1)), (Numbers{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
  EXPECT_EQ(hash.primes(0).size(), 24u);
  EXPECT_EQ(hash.primes(0)[0], 16000057);
  EXPECT_EQ(hash.primes(0)[23], 16000463);
  EXPECT_EQ(hash.primes(1)[0], 16000477);
  EXPECT_EQ(hash.primes(1)[23], 16000889);
}

TEST(EngramHash, PrimesAndMultipliersOfTheDemonstrationModel) {
  const EngramHash hash = identity_hash(config_of(demonstration_json()));
  EXPECT_EQ(numbers(hash.primes(0)), (Numbers{1511, 1523, 1531, 1543, 1549, 1553}));
  EXPECT_EQ(numbers(hash.primes(1)), (Numbers{1559, 1567, 1571, 1579, 1583, 1597}));
  EXPECT_EQ(numbers(hash.multipliers(0)),
            (Numbers{2322920667303345, 146709391813589, 1090032379770255, 2242751068653113}));
  EXPECT_EQ(numbers(hash.multipliers(1)),
            (Numbers{834415145496899, 2475306678632889, 329738745069183, 2130885517402903}));
}

TEST(EngramHash, TableRowsOfTheReleasedModel) {
  const EngramHash hash = identity_hash(config_of(flash_json()));
  const std::vector<int32_t> classes{0, 17, 99091, 5, 5, kDeadClass, 42, 7};
  const auto rows = [&](int layer, size_t position) {
    Numbers all(classes.size() * 24);
    hash.rows(layer, classes, static_cast<int64_t>(classes.size()), all.data());
    return Numbers(all.begin() + static_cast<std::ptrdiff_t>(position * 24),
                   all.begin() + static_cast<std::ptrdiff_t>(position * 24 + 24));
  };
  EXPECT_EQ(rows(0, 3),
            (Numbers{12391924,  30601786,  32347082,  62848667,  70397898,  94727027,  98981383,  125214817,
                     137477310, 158283928, 170183372, 186738561, 199160461, 222179456, 233717225, 248862157,
                     262553944, 283213004, 294898758, 316943970, 331715574, 337984765, 354148553, 368464748}));
  EXPECT_EQ(rows(1, 3),
            (Numbers{743092,    18408009,  41668928,  49698968,  70671423,  85309510,  103753309, 124352426,
                     133323207, 152679242, 173382312, 184399208, 195980780, 215496953, 228729201, 251781413,
                     259105857, 280857765, 301373476, 314844026, 333847482, 348384422, 352484997, 375380122}));
  EXPECT_EQ(rows(0, 6),
            (Numbers{5873501,   24050256,  38794266,  60749492,  77694306,  88679167,  102172266, 118868640,
                     140595404, 145323553, 160597739, 176998523, 204675867, 218519855, 239292479, 244787595,
                     271646719, 273372496, 299017323, 319841325, 333724509, 338549650, 358463331, 382017429}));
  EXPECT_EQ(rows(1, 7),
            (Numbers{11305274,  27334783,  40171751,  59397793,  69011134,  82040608,  104597715, 123883017,
                     138735616, 159880379, 173611796, 183901480, 203916413, 218224779, 231414773, 241147764,
                     267735424, 279765183, 298014299, 312693728, 334521217, 342616482, 363512344, 371987270}));
  // The look-back of a later step gives the same rows.
  Numbers tail(2 * 24);
  hash.rows(0, std::span(classes).last(5), 2, tail.data());
  EXPECT_EQ(Numbers(tail.begin(), tail.begin() + 24), rows(0, 6));
}

TEST(EngramHash, RowsOfARealPrompt) {
  const Config c = config_of(demonstration_json());
  const auto map =
      read_json(std::string(DEEPINFER_TEST_MODEL) + "/engram_token_map.json").at("map").get<std::vector<int32_t>>();
  const EngramHash hash = EngramHash::make(c, map).value();
  const GoldenEntry golden = GoldenEntry::ops("engram_hash");
  const auto ids = golden.in<int64_t>("ids");
  const auto dead = golden.in<uint8_t>("dead");
  std::vector<int32_t> classes;
  for (size_t i = 0; i < ids.size(); ++i)
    classes.push_back(dead[i] != 0 ? kDeadClass : hash.class_of(static_cast<int32_t>(ids[i])));
  for (int layer = 0; layer < 2; ++layer) {
    Numbers rows(ids.size() * 6);
    hash.rows(layer, classes, static_cast<int64_t>(ids.size()), rows.data());
    golden.expect_equal<int64_t>("layer" + std::to_string(c.engram_layer_ids[static_cast<size_t>(layer)]), rows);
  }
}

TEST(EngramHash, RefusesWhatDoesNotFit) {
  const Config c = config_of(demonstration_json());
  std::vector<int32_t> classes(4096, 0);
  EXPECT_NE(
      EngramHash::make(c, std::vector<int32_t>(5)).status().message().find("has 5 entries; allowed: vocab_size, 4096"),
      std::string::npos);
  classes[7] = 3269;
  EXPECT_NE(EngramHash::make(c, classes).status().message().find("class 3269; allowed: 0 to 3268"), std::string::npos);
  classes[7] = -2;
  EXPECT_FALSE(EngramHash::make(c, classes).ok());
  classes[7] = 0;
  auto j = demonstration_json();
  j["text_config"]["engram_num_embeddings"] = {9210, 9457};
  EXPECT_NE(EngramHash::make(config_of(j), classes)
                .status()
                .message()
                .find("engram_num_embeddings[1] is 9457; allowed: 9456"),
            std::string::npos);
}

TEST(EngramTokenMap, FoldsLikeTheReference) {
  EXPECT_EQ(fold_token_text("Hello"), "hello");
  EXPECT_EQ(fold_token_text(" Hello\t\r\n x "), "hello x");
  EXPECT_EQ(fold_token_text(" "), " ");
  EXPECT_EQ(fold_token_text("\n\n"), " ");                   // collapses to a lone space, which stays
  EXPECT_EQ(fold_token_text("\u00A0"), " ");                 // compatibility: a no-break space
  EXPECT_EQ(fold_token_text("\u00C9\u00E9e\u0301"), "eee");  // accents go, composed or not
  EXPECT_EQ(fold_token_text("\uFB01"), "fi");                // ligature
  EXPECT_EQ(fold_token_text("\u0915\u093E"), "\u0915");      // a spacing mark (Mc) goes too
  EXPECT_EQ(fold_token_text("a\u20DD"), "a");                // and an enclosing one (Me)
  EXPECT_EQ(fold_token_text("\u03A3"), "\u03C3");            // no final-sigma rule
  EXPECT_EQ(fold_token_text("\u0301"), "");
  EXPECT_EQ(fold_token_text("\u2003x\u2003"), "x");
}

TEST(EngramTokenMap, NumbersClassesByFirstAppearance) {
  const std::vector<TokenSpelling> tokens{{"<s>", true},     {"The", false}, {" the", false},   {"\xE6", false},
                                          {"\u00E6", false}, {"", false},    {"\xFF\xFF", true}};
  const EngramTokenMap map = build_engram_token_map(tokens);
  // A broken byte is classed by its spelling in the vocabulary, which for 0xE6 is the letter of token 4.
  EXPECT_EQ(map.classes, (std::vector<int32_t>{0, 1, 1, 2, 2, 3, 4}));
  EXPECT_EQ(map.count, 5);
}

TEST(EngramTokenMap, ReadsAndRefusesFiles) {
  EXPECT_EQ(parse_engram_token_map(R"({"map": [0, 1, 1], "classes": 2})", "m").value().classes,
            (std::vector<int32_t>{0, 1, 1}));
  for (const char* bad :
       {"", "[]", R"({"map": [0]})", R"({"classes": 1})", R"({"map": [0, 2], "classes": 2})",
        R"({"map": [0, -1], "classes": 2})", R"({"map": [0, 0], "classes": 2})", R"({"map": [0, 1], "classes": 3})",
        R"({"map": [0, 1.5], "classes": 2})", R"({"map": [0], "classes": 99999999999999})"}) {
    EXPECT_EQ(parse_engram_token_map(bad, "m").status().code(), StatusCode::kCorruptFile) << bad;
  }
}

}  // namespace
}  // namespace deepinfer::deepseek_v41
