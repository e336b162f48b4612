#include "text/character_start.h"

#include <algorithm>
#include <cstddef>

#include "text/bpe.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}
bool is_lead_of_three(char c) {
  return (static_cast<unsigned char>(c) & 0xF0) == 0xE0;
}

}  // namespace

std::vector<std::string_view> CharacterStart::prepare(std::span<const std::int32_t, 256> byte_ids,
                                                      std::span<const MergeRule> merges) {
  struct Range {
    std::size_t begin = 0, length = 0;
  };
  std::int32_t largest = *std::max_element(byte_ids.begin(), byte_ids.end());
  for (const MergeRule& rule : merges) largest = std::max(largest, rule.merged);
  std::vector<Range> known(static_cast<std::size_t>(largest) + 1);  // [id], of the tokens formed so far
  const auto of = [&](std::int32_t id) -> Range& { return known[static_cast<std::size_t>(id)]; };
  std::vector<char> arena;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    of(byte_ids[byte]) = {arena.size(), 1};
    arena.push_back(static_cast<char>(byte));
  }
  std::vector<Range> characters;
  torn_.fill(0);
  for (const MergeRule& rule : merges) {
    if (rule.left > largest || rule.right > largest || of(rule.merged).length != 0) return {};
    const Range left = of(rule.left), right = of(rule.right);
    if (left.length == 0 || right.length == 0) return {};
    const Range merged = of(rule.merged) = {arena.size(), left.length + right.length};
    arena.resize(merged.begin + merged.length);
    std::copy_n(arena.data() + left.begin, left.length, arena.data() + merged.begin);
    std::copy_n(arena.data() + right.begin, right.length, arena.data() + merged.begin + left.length);
    const char* const bytes = arena.data() + merged.begin;
    // A token with another kind of byte is never part of a piece of three-byte characters.
    if (!std::all_of(bytes, bytes + merged.length, [](char c) { return is_continuation(c) || is_lead_of_three(c); }))
      continue;
    const std::string_view token(bytes, merged.length);
    if (!is_valid_utf8(token)) {
      tear(token);
    } else if (token.size() == 3) {
      characters.push_back(merged);
    }
  }
  arena_ = std::move(arena);
  ids_.assign(1 << 16, -1);
  std::vector<std::string_view> result;
  for (const Range range : characters) result.emplace_back(arena_.data() + range.begin, range.length);
  return result;
}

// One border is enough to notice the token; the one with the most bytes around it gives the fewest false alarms.
void CharacterStart::tear(std::string_view token) {
  for (std::size_t at = 1; at < token.size(); ++at) {
    if (!is_lead_of_three(token[at]) || !is_continuation(token[at - 1])) continue;
    const bool has_second = at + 1 < token.size();
    for (int second = 0; second < 64; ++second) {
      const char c = has_second ? token[at + 1] : static_cast<char>(0x80 | second);
      const std::size_t b = border(token[at - 1], token[at], c);
      torn_[b >> 6] |= std::uint64_t{1} << (b & 63);
      if (has_second) break;
    }
    return;
  }
}

}  // namespace deepinfer
