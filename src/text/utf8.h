// UTF-8 in bytes: decoding one character, checking, and the WHATWG repair.
// Used by the tokenizer, the stream decoder and the splitters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the front of some bytes.
struct Utf8Prefix {
  enum class Kind : std::uint8_t {
    kCharacter,   // a whole character of `length` bytes with code point `code_point`
    kInvalid,     // a maximal bad sequence of `length` bytes: one U+FFFD
    kIncomplete,  // all `length` remaining bytes start a character whose end is missing
  };
  Kind kind;
  std::uint8_t length;  // 1..4
  char32_t code_point;  // kCharacter only
};

// Classifies the front of `bytes`, which must not be empty.
Utf8Prefix utf8_prefix(std::string_view bytes);

// Decodes the character at `at` of text known to be valid; `at` is moved behind it.
inline char32_t next_code_point(const char*& at) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return at += 1, lead;
  if (lead < 0xE0) {
    const char32_t c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    return at += 2, c;
  }
  if (lead < 0xF0) {
    const char32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    return at += 3, c;
  }
  const char32_t c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  return at += 4, c;
}

void append_utf8(char32_t code_point, std::string& out);

bool is_valid_utf8(std::string_view text);

// Appends `bytes` with U+FFFD for each maximal bad sequence; an incomplete character at the end is one too.
void append_repaired_utf8(std::string_view bytes, std::string& out);

// Number of leading bytes that end with a whole character or a bad sequence: what remains (at most 3 bytes) starts a
// character whose end may still come.
std::size_t complete_utf8_prefix(std::string_view bytes);

}  // namespace deepinfer
