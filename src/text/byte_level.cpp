#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace deepinfer {
namespace {

// Bytes that are printable in Latin-1 stand for themselves; the other 68 take the code points from U+0100 on.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kAlphabetEnd = 0x100 + 68;

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
  for (std::size_t at = 0; at < spelling.size();) {
    const Utf8Prefix prefix = utf8_prefix(spelling.substr(at));
    const bool known = prefix.kind == Utf8Prefix::Kind::kCharacter && prefix.code_point < kAlphabetEnd &&
                       kByteOfCodePoint[prefix.code_point] >= 0;
    if (!known) {
      bytes.resize(before);
      return false;
    }
    bytes.push_back(static_cast<char>(kByteOfCodePoint[prefix.code_point]));
    at += prefix.length;
  }
  return true;
}

}  // namespace deepinfer
