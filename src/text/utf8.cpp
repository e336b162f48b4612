#include "text/utf8.h"

#include <simdjson.h>

#include <algorithm>

namespace deepinfer {
namespace {

unsigned char byte_at(std::string_view bytes, std::size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

}  // namespace

Utf8Prefix utf8_prefix(std::string_view bytes) {
  using enum Utf8Prefix::Kind;
  const unsigned char lead = byte_at(bytes, 0);
  if (lead < 0x80) return {kCharacter, 1, lead};
  // Allowed range of the second byte by lead byte (Unicode 15, table 3-7); the others are 80..BF.
  unsigned char low = 0x80, high = 0xBF;
  int length = 0;
  char32_t code_point = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code_point = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code_point = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code_point = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {kInvalid, 1, 0};
  }
  for (int i = 1; i < length; ++i) {
    if (static_cast<std::size_t>(i) == bytes.size()) return {kIncomplete, static_cast<std::uint8_t>(i), 0};
    const unsigned char byte = byte_at(bytes, static_cast<std::size_t>(i));
    if (byte < low || byte > high) return {kInvalid, static_cast<std::uint8_t>(i), 0};
    code_point = code_point << 6 | (byte & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {kCharacter, static_cast<std::uint8_t>(length), code_point};
}

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

void append_repaired_utf8(std::string_view bytes, std::string& out) {
  if (is_valid_utf8(bytes)) {
    out.append(bytes);
    return;
  }
  while (!bytes.empty()) {
    const Utf8Prefix prefix = utf8_prefix(bytes);
    out.append(prefix.kind == Utf8Prefix::Kind::kCharacter ? bytes.substr(0, prefix.length) : kReplacementCharacter);
    bytes.remove_prefix(prefix.length);
  }
}

std::size_t complete_utf8_prefix(std::string_view bytes) {
  // Only a lead byte among the last three can start a character that is still incomplete.
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const std::size_t start = bytes.size() - back;
    if (byte_at(bytes, start) < 0xC0) continue;  // ASCII or a continuation byte
    return utf8_prefix(bytes.substr(start)).kind == Utf8Prefix::Kind::kIncomplete ? start : bytes.size();
  }
  return bytes.size();
}

}  // namespace deepinfer
