// Unicode general categories folded to the few classes that DeepSeek's pre-tokenizer distinguishes, in one byte a
// character.  Used by DeepSeekSplitter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace deepinfer {

enum class CharClass : std::uint8_t {
  kOther,    // \p{C} (unassigned, controls, format characters), except white space
  kLetter,   // \p{L}
  kMark,     // \p{M}
  kNumber,   // \p{N}
  kSymbol,   // \p{P} or \p{S}
  kNewline,  // CR, LF
  kSpace,    // the other White_Space characters
};

// True for the characters of DeepSeek's second expression: [一-龥぀-ゟ゠-ヿ].
constexpr bool is_cjk(char32_t c) {
  return c - 0x4E00u <= 0x9FA5u - 0x4E00u || c - 0x3040u <= 0x30FFu - 0x3040u;
}

class CharClassTable {
 public:
  // Built once a process, from utf8proc's categories.
  static const CharClassTable& instance();

  // c <= 0x10FFFF.
  CharClass operator[](char32_t c) const {
    return classes_[static_cast<std::size_t>(blocks_[c >> 7]) << 7 | (c & 127)];
  }

 private:
  CharClassTable();
  std::array<std::uint16_t, 0x110000 / 128> blocks_;  // code point / 128 -> block
  std::vector<CharClass> classes_;                    // 128 a block, equal blocks stored once
};

}  // namespace deepinfer
