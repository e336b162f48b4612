// The merge loop against the definition of BPE, and the amount of its work on hostile pieces.
#include "text/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <map>

#include "text/tokenizer_json.h"
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
