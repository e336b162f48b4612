// Unicode general categories folded to the few classes that DeepSeek's pre-tokenizer distinguishes.
// Used by DeepSeekSplitter; the table is written at build time by unicode_classes_generator.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

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

inline constexpr char32_t kCharClassBlock = 128;                          // characters in a row of the table
extern const std::uint16_t kCharClassBlocks[0x110000 / kCharClassBlock];  // character / 128 -> row
extern const std::uint8_t kCharClasses[];                                 // rows of CharClass, equal rows stored once

// c <= 0x10FFFF.
inline CharClass char_class(char32_t c) {
  const std::size_t row = kCharClassBlocks[c / kCharClassBlock];
  return static_cast<CharClass>(kCharClasses[row * kCharClassBlock + c % kCharClassBlock]);
}

}  // namespace deepinfer
