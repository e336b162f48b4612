// CharacterStart: which pieces may be merged from whole characters instead of from bytes, with the same tokens.
//
// A piece of CJK text is mostly characters that are tokens themselves, and two of three merges only put their bytes
// together.  These merges can be done ahead when
//  - every token of several bytes has one rule, and the rules of its parts come before it (true of trained rules), and
//  - the piece holds no token that begins or ends inside a character and reaches into another one.
// Then each merge happens either inside a character or between whole ones; and a rule for whole characters has a higher
// rank than those that complete its characters, so completing all of them first changes nothing.
// Owned by Bpe.  Covers pieces of three-byte characters only, where it pays.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace deepinfer {

struct MergeRule;

class CharacterStart {
 public:
  // Nothing is covered until the second step.
  CharacterStart() = default;
  // Looks at the rules; when they allow it, returns the spellings of all tokens that are one three-byte character.
  std::vector<std::string_view> prepare(std::span<const std::int32_t, 256> byte_ids, std::span<const MergeRule> merges);
  // `character` alone becomes this token.
  void add(std::string_view character, std::int32_t id) { ids_[index(character.data())] = id; }

  // Writes the tokens of the piece's characters and returns how many; 0 when the piece is not covered.
  // `ids` has room for piece.size() / 3.
  std::size_t start(std::string_view piece, std::int32_t* ids) const {
    if (ids_.empty() || piece.size() % 3 != 0) return 0;
    for (std::size_t at = 0; at < piece.size(); at += 3) {
      const char* const c = piece.data() + at;
      if ((static_cast<unsigned char>(*c) & 0xF0) != 0xE0) return 0;
      if (at > 0 && is_torn(c)) return 0;
      const std::int32_t id = ids_[index(c)];
      if (id < 0) return 0;
      ids[at / 3] = id;
    }
    return piece.size() / 3;
  }

 private:
  static std::size_t low_bits(char c, unsigned bits) { return static_cast<unsigned char>(c) & ((1U << bits) - 1); }
  // The code point of a three-byte character.
  static std::size_t index(const char* c) {
    return low_bits(c[0], 4) << 12 | low_bits(c[1], 6) << 6 | low_bits(c[2], 6);
  }
  // Around the border of two characters: the last byte before `c`, and its first two.
  static std::size_t border(char before, char first, char second) {
    return low_bits(before, 6) << 10 | low_bits(first, 4) << 6 | low_bits(second, 6);
  }
  bool is_torn(const char* c) const {
    const std::size_t b = border(c[-1], c[0], c[1]);
    return (torn_[b >> 6] >> (b & 63) & 1) != 0;
  }
  void tear(std::string_view token);

  std::vector<std::int32_t> ids_;         // [code point], -1: not one token; empty: nothing is covered
  std::array<std::uint64_t, 1024> torn_;  // a bit for each border that a token which is not whole characters spans
  std::vector<char> arena_;               // bytes of all tokens, for prepare()'s result
};

}  // namespace deepinfer
