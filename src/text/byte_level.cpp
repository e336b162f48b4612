#include "text/byte_level.h"

#include <array>
#include <cstdint>

namespace deepinfer {
namespace {

// Bytes that are printable in Latin-1 stand for themselves; the other 68 take the code points from U+0100 on.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr unsigned kAlphabetEnd = 0x100 + 68;

constexpr auto kByteOfCodePoint = [] {
  std::array<std::int16_t, kAlphabetEnd> table{};
  for (auto& entry : table) entry = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    table[static_cast<std::size_t>(stands_for_itself(byte) ? byte : next++)] = static_cast<std::int16_t>(byte);
  }
  return table;
}();

}  // namespace

bool append_byte_level(std::string_view spelling, std::string& bytes) {
  const std::size_t before = bytes.size();
  bytes.resize(before + spelling.size());
  char* out = bytes.data() + before;
  for (std::size_t at = 0; at < spelling.size();) {
    // The alphabet lies below U+0144: one byte, or two with the first one C2..C5.
    const unsigned lead = static_cast<unsigned char>(spelling[at]);
    unsigned code_point = lead;
    if (lead >= 0x80) {
      const unsigned second = at + 1 < spelling.size() ? static_cast<unsigned char>(spelling[at + 1]) : 0;
      const bool two = lead >= 0xC2 && lead <= 0xC5 && (second & 0xC0) == 0x80;
      code_point = two ? (lead & 0x1F) << 6 | (second & 0x3F) : kAlphabetEnd;
    }
    if (code_point >= kAlphabetEnd || kByteOfCodePoint[code_point] < 0) {
      bytes.resize(before);
      return false;
    }
    *out++ = static_cast<char>(kByteOfCodePoint[code_point]);
    at += lead < 0x80 ? 1 : 2;
  }
  bytes.resize(static_cast<std::size_t>(out - bytes.data()));
  return true;
}

}  // namespace deepinfer
