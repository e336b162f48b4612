// CodepointSet: a set of Unicode scalar values (surrogates never belong to one).  Used by the regular expressions and
// the strings of src/grammar.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer {

inline constexpr uint32_t kLastCodepoint = 0x10FFFF;

struct CodepointRange {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  auto operator<=>(const CodepointRange&) const = default;
};

class CodepointSet {
 public:
  CodepointSet() = default;
  CodepointSet(std::initializer_list<CodepointRange> ranges);
  static CodepointSet all();

  void add(uint32_t first, uint32_t last);
  void add(const CodepointSet& other);
  CodepointSet complement() const;
  CodepointSet intersection(const CodepointSet& other) const;
  CodepointSet minus(const CodepointSet& other) const { return intersection(other.complement()); }

  bool contains(uint32_t codepoint) const;
  bool empty() const { return ranges_.empty(); }
  // Ascending, disjoint, not adjacent.
  const std::vector<CodepointRange>& ranges() const { return ranges_; }
  auto operator<=>(const CodepointSet&) const = default;

 private:
  void normalize();
  std::vector<CodepointRange> ranges_;
};

void append_utf8(uint32_t codepoint, std::string& out);
// The code points of valid UTF-8; false at the first byte that is not.
bool read_utf8(std::string_view text, std::vector<uint32_t>& codepoints, size_t* bad_byte = nullptr);

}  // namespace deepinfer
