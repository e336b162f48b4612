#include "models/deepseek_v41/engram_token_map.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <utf8proc.h>

#include <algorithm>
#include <new>
#include <unordered_map>

#include "base/check.h"

namespace deepinfer::deepseek_v41 {
namespace {

void append_utf8(std::string& out, utf8proc_int32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(code, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

// The property White_Space.
bool is_white_space(utf8proc_int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_combining_mark(utf8proc_int32_t c) {
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

// Whole characters only, and no U+FFFD among them: decoding such a token alone loses nothing.
bool decodes_whole(std::string_view bytes) {
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  auto left = static_cast<utf8proc_ssize_t>(bytes.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    const auto n = utf8proc_iterate(at, left, &code);
    if (n <= 0 || code == 0xFFFD) return false;
    at += n;
    left -= n;
  }
  return true;
}

// How byte-level vocabularies spell bytes: printable Latin-1 as itself, the others from U+0100 on.
std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto b = static_cast<uint8_t>(c);
    const auto printable = [](int v) { return (v >= 0x21 && v <= 0x7E) || (v >= 0xA1 && v <= 0xAC) || v >= 0xAE; };
    int code = b;
    if (!printable(b)) {
      code = 0x100;
      for (int v = 0; v < b; ++v) code += printable(v) ? 0 : 1;
    }
    append_utf8(out, code);
  }
  return out;
}

}  // namespace

Result<EngramTokenMap> parse_engram_token_map(std::string_view json, std::string_view source) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const auto error = parser.parse(json.data(), json.size()).get(root);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS)
    return corrupt_file(fmt::format("{}: not valid JSON: {}", source, simdjson::error_message(error)));
  EngramTokenMap map;
  if (root["classes"].get(map.count) != simdjson::SUCCESS || map.count < 1)
    return corrupt_file(fmt::format("{}: `classes` is missing; allowed: a positive integer", source));
  simdjson::dom::array list;
  if (root["map"].get(list) != simdjson::SUCCESS)
    return corrupt_file(fmt::format("{}: `map` is missing; allowed: the class of each token id", source));
  // Every class is used, so there are at most as many as tokens: no size is taken from the file unchecked.
  if (map.count > static_cast<int64_t>(list.size()) && list.size() < 0xFFFFFF)
    return corrupt_file(
        fmt::format("{}: `classes` is {}; allowed: at most the {} entries of `map`", source, map.count, list.size()));
  for (const simdjson::dom::element entry : list) {
    int64_t value = 0;
    if (entry.get(value) != simdjson::SUCCESS || value < 0 || value >= map.count)
      return corrupt_file(fmt::format("{}: `map[{}]` is {}; allowed: an integer from 0 to {}", source,
                                      map.classes.size(), std::string(simdjson::to_string(entry)).substr(0, 40),
                                      map.count - 1));
    map.classes.push_back(static_cast<int32_t>(value));
  }
  if (map.count > static_cast<int64_t>(map.classes.size()))
    return corrupt_file(fmt::format("{}: `classes` is {} for {} tokens", source, map.count, map.classes.size()));
  std::vector<bool> used(static_cast<size_t>(map.count));
  for (const int32_t value : map.classes) used[static_cast<size_t>(value)] = true;
  if (const auto hole = std::find(used.begin(), used.end(), false); hole != used.end())
    return corrupt_file(
        fmt::format("{}: `classes` is {} but class {} is never used", source, map.count, hole - used.begin()));
  return map;
}

std::string fold_token_text(std::string_view text) {
  // NFD after NFKC is the compatibility decomposition.
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  const auto length = utf8proc_decompose(bytes, size, nullptr, 0, options);
  DI_CHECK(length >= 0, "the text of a token is valid UTF-8");
  std::vector<utf8proc_int32_t> codes(static_cast<size_t>(length));
  utf8proc_decompose(bytes, size, codes.data(), length, options);

  std::vector<utf8proc_int32_t> folded;
  for (const utf8proc_int32_t code : codes) {
    if (is_combining_mark(code)) continue;
    const auto lower = utf8proc_tolower(code);
    if (lower != ' ' && lower != '\t' && lower != '\r' && lower != '\n') {
      folded.push_back(lower);
    } else if (folded.empty() || folded.back() != ' ') {
      folded.push_back(' ');
    }
  }
  if (folded.size() == 1 && folded[0] == ' ') return " ";
  size_t begin = 0;
  size_t end = folded.size();
  while (begin < end && is_white_space(folded[begin])) ++begin;
  while (end > begin && is_white_space(folded[end - 1])) --end;
  std::string out;
  for (size_t i = begin; i < end; ++i) {
    // The reference protects a lone space with U+E000, so that character comes back as a space.
    append_utf8(out, folded[i] == 0xE000 ? ' ' : folded[i]);
  }
  return out;
}

EngramTokenMap build_engram_token_map(std::span<const TokenSpelling> tokens) {
  EngramTokenMap map;
  std::unordered_map<std::string, int32_t> classes;
  map.classes.reserve(tokens.size());
  for (const TokenSpelling& token : tokens) {
    std::string key;
    if (!decodes_whole(token.bytes)) {
      key = token.added ? token.bytes : byte_level_spelling(token.bytes);
    } else {
      key = fold_token_text(token.bytes);
      if (key.empty()) key = token.bytes;
    }
    const auto next = static_cast<int32_t>(classes.size());
    map.classes.push_back(classes.try_emplace(std::move(key), next).first->second);
  }
  map.count = static_cast<int64_t>(classes.size());
  return map;
}

}  // namespace deepinfer::deepseek_v41
