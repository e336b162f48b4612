// The merge loop against the definition of BPE, and the amount of its work on hostile pieces.
#include "text/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <map>
#include <random>

#include "text/tokenizer_json.h"
#include "text/utf8.h"
#include "tokenizer_files.h"

namespace deepinfer {
namespace {

// The definition: merge the leftmost pair of the lowest rank until none applies.
class PlainBpe {
 public:
  PlainBpe(std::span<const int32_t, 256> byte_ids, const std::vector<MergeRule>& merges) : byte_ids_(byte_ids) {
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      rules_[{merges[rank].left, merges[rank].right}] = {rank, merges[rank].merged};
    }
  }
  std::vector<int32_t> encode(std::string_view piece) const {
    std::vector<int32_t> ids;
    for (const char c : piece) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    for (;;) {
      std::pair<std::size_t, int32_t> best{SIZE_MAX, -1};
      std::size_t place = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto rule = rules_.find({ids[i], ids[i + 1]});
        if (rule != rules_.end() && rule->second.first < best.first) best = rule->second, place = i;
      }
      if (best.second < 0) return ids;
      ids[place] = best.second;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
  }

 private:
  std::span<const int32_t, 256> byte_ids_;
  std::map<std::pair<int32_t, int32_t>, std::pair<std::size_t, int32_t>> rules_;
};

std::array<int32_t, 256> identity_bytes() {
  std::array<int32_t, 256> ids;
  for (int32_t i = 0; i < 256; ++i) ids[static_cast<std::size_t>(i)] = i;
  return ids;
}

std::vector<int32_t> encode(const Bpe& bpe, std::string_view piece) {
  Bpe::Scratch scratch;
  const auto ids = bpe.encode(piece, scratch);
  return {ids.begin(), ids.end()};
}

// Random rules over three letters: many pairs compete, different rules may give the same token.
TEST(Bpe, EqualsTheDefinitionForRandomRules) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = identity_bytes();
    std::vector<std::string> tokens;
    for (int i = 0; i < 256; ++i) tokens.emplace_back(1, static_cast<char>(i));
    std::vector<int32_t> usable = {'a', 'b', 'c'};
    std::vector<MergeRule> merges;
    std::map<std::pair<int32_t, int32_t>, bool> seen;
    const int rules = *rc::gen::inRange(0, 40);
    for (int i = 0; i < rules; ++i) {
      const int32_t left = *rc::gen::elementOf(usable), right = *rc::gen::elementOf(usable);
      if (!seen.emplace(std::pair{left, right}, true).second) continue;
      const std::string merged = tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)];
      const auto known = std::find(tokens.begin(), tokens.end(), merged);
      const auto id = static_cast<int32_t>(known - tokens.begin());
      if (known == tokens.end()) tokens.push_back(merged), usable.push_back(id);
      merges.push_back({left, right, id});
    }
    const auto shuffled = merges;
    const Bpe bpe(bytes, shuffled);
    const PlainBpe plain(bytes, shuffled);
    // Both sides of the border between the short and the long loop.
    for (const int length : {1, 2, 7, 40, 127, 128, 129, 130, 300}) {
      std::string piece;
      for (int i = 0; i < length; ++i) piece += *rc::gen::elementOf(std::string("aaabbcd"));
      RC_ASSERT(encode(bpe, piece) == plain.encode(piece));
    }
  }));
}

// Rules as training makes them (each token from tokens before it) over characters of three bytes, with many tokens that
// reach from one character into the next: the short cut for whole characters must notice those.
TEST(Bpe, EqualsTheDefinitionForCharactersOfThreeBytes) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = identity_bytes();
    std::vector<std::string> characters;
    for (const char lead : {'\xE4', '\xE5'}) {
      for (const char second : {'\xB8', '\xB9'}) {
        for (const char third : {'\x80', '\x81'}) characters.push_back({lead, second, third});
      }
    }
    const auto random_text = [&](int length) {
      std::string text;
      for (int i = 0; i < length; ++i) text += *rc::gen::elementOf(characters);
      return text;
    };
    // Merges that really occur in some text, most of them inside characters at first.
    const std::string sample = random_text(40);
    std::vector<std::string> tokens;
    for (int i = 0; i < 256; ++i) tokens.emplace_back(1, static_cast<char>(i));
    std::vector<MergeRule> merges;
    const int rules = *rc::gen::inRange(0, 60);
    for (int rule = 0; rule < rules; ++rule) {
      const Bpe so_far(bytes, merges);
      const auto ids = encode(so_far, sample);
      const auto at = static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(ids.size())));
      if (at + 1 >= ids.size()) continue;
      const bool torn =
          at > 0 && *rc::gen::inRange(0, 4) != 0 && (tokens[static_cast<std::size_t>(ids[at])][0] & 0xC0) == 0x80;
      if (torn) continue;
      const std::string merged =
          tokens[static_cast<std::size_t>(ids[at])] + tokens[static_cast<std::size_t>(ids[at + 1])];
      if (std::find(tokens.begin(), tokens.end(), merged) != tokens.end()) continue;
      merges.push_back({ids[at], ids[at + 1], static_cast<int32_t>(tokens.size())});
      tokens.push_back(merged);
    }
    const Bpe bpe(bytes, merges);
    const PlainBpe plain(bytes, merges);
    for (const int length : {1, 2, 3, 5, 12, 42, 43, 127, 128, 130}) {
      const std::string piece = random_text(length);
      RC_ASSERT(encode(bpe, piece) == plain.encode(piece));
    }
  }));
}

TokenizerParts parts_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string json{std::istreambuf_iterator<char>(stream), {}};
  auto parts = read_tokenizer_json(json, file.string());
  EXPECT_TRUE(parts.ok()) << parts.status().to_string();
  return std::move(parts).value();
}

TEST(Bpe, EqualsTheDefinitionForTheTinyRules) {
  const TokenizerParts parts = parts_of(tiny_tokenizer_file());
  const Bpe bpe(parts.byte_ids, parts.merges);
  const PlainBpe plain(parts.byte_ids, parts.merges);
  std::string text;
  for (const auto& row : read_json_rows("tokenizer/tiny.jsonl")) text += row.at("text").get<std::string>();
  for (std::size_t at = 0, length = 1; at < text.size(); at += length, length = length % 200 + 1) {
    const std::string piece = text.substr(at, length);  // any bytes are a piece
    ASSERT_EQ(encode(bpe, piece), plain.encode(piece));
  }
}

// Every token that begins or ends inside a CJK character, in company that completes it, and random company.
TEST(Bpe, EqualsTheDefinitionForTornCharactersOfDeepSeek) {
  DEEPINFER_NEEDS_DEEPSEEK_TOKENIZER();
  const TokenizerParts parts = parts_of(deepseek_tokenizer_file());
  const Bpe bpe(parts.byte_ids, parts.merges);
  const PlainBpe plain(parts.byte_ids, parts.merges);
  const auto is_continuation = [](char c) { return (c & 0xC0) == 0x80; };
  const auto is_lead = [](char c) { return (c & 0xF0) == 0xE0; };
  std::mt19937 random(3);
  int torn = 0;
  for (int32_t id = 0; id < parts.vocabulary.size(); ++id) {
    std::string token(parts.vocabulary.bytes(id));
    if (token.size() < 2 || is_valid_utf8(token)) continue;
    if (!std::all_of(token.begin(), token.end(), [&](char c) { return is_continuation(c) || is_lead(c); })) continue;
    ++torn;
    for (int round = 0; round < 8; ++round) {
      std::string piece;
      const auto add_random = [&] {
        for (std::uint32_t i = random() % 6; i > 0; --i) append_utf8(0x4E00 + random() % 0x5000, piece);
      };
      add_random();
      const auto leading = static_cast<std::size_t>(std::find_if(token.begin(), token.end(), is_lead) - token.begin());
      if (leading > 0) piece += static_cast<char>(0xE4 + random() % 6);
      if (leading == 1) piece += static_cast<char>(0x80 + random() % 64);
      piece += token;
      while (!is_valid_utf8(piece) && piece.size() < 100) piece += static_cast<char>(0x80 + random() % 64);
      add_random();
      ASSERT_EQ(encode(bpe, piece), plain.encode(piece));
    }
  }
  EXPECT_GT(torn, 100);
}

void check_work(const TokenizerParts& parts) {
  const Bpe bpe(parts.byte_ids, parts.merges);
  for (const std::string unit :
       {"a", " ", "1", "🦙", "=", "\n", "👩‍👩‍👧", "ab", "the", "中文", "\xFF", "aaaaaaab"}) {
    const std::size_t bytes_wanted = unit == "a" || unit == " " || unit == "1" || unit == "🦙" ? 1 << 20 : 1 << 16;
    std::string piece;
    while (piece.size() < bytes_wanted) piece += unit;
    Bpe::Scratch scratch;
    const auto ids = bpe.encode(piece, scratch);
    // Each byte starts one pair, each of at most n merges starts two more: 3 n pushes and pops of a heap of at most
    // 2^22.
    EXPECT_LE(scratch.work, piece.size() * (2 + 6 * 22)) << unit;
    std::string bytes;
    for (const int32_t id : ids) bytes += parts.vocabulary.bytes(id);
    EXPECT_EQ(bytes, piece);
  }
  // A short piece costs at most the square of its (bounded) length.
  Bpe::Scratch scratch;
  bpe.encode(std::string(128, 'a'), scratch);
  EXPECT_LE(scratch.work, 128u * 128u);
}

TEST(Bpe, WorkOnHostilePiecesIsBounded) {
  check_work(parts_of(tiny_tokenizer_file()));
  if (!deepseek_tokenizer_file().empty()) check_work(parts_of(deepseek_tokenizer_file()));
}

}  // namespace
}  // namespace deepinfer
