#include "grammar/codepoint_set.h"

#include <algorithm>

namespace deepinfer {

CodepointSet::CodepointSet(std::initializer_list<CodepointRange> ranges) : ranges_(ranges) {
  normalize();
}

CodepointSet CodepointSet::all() {
  return {{0, 0xD7FF}, {0xE000, kLastCodepoint}};
}

void CodepointSet::add(uint32_t first, uint32_t last) {
  ranges_.push_back({first, last});
  normalize();
}

void CodepointSet::add(const CodepointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
}

void CodepointSet::normalize() {
  // Surrogates are cut out of every range.
  std::vector<CodepointRange> cut;
  for (CodepointRange range : ranges_) {
    range.last = std::min(range.last, kLastCodepoint);
    if (range.first < 0xD800 && range.first <= range.last) cut.push_back({range.first, std::min(range.last, 0xD7FFu)});
    if (range.last > 0xDFFF) cut.push_back({std::max(range.first, 0xE000u), range.last});
  }
  std::sort(cut.begin(), cut.end());
  ranges_.clear();
  for (const CodepointRange& range : cut) {
    if (range.first > range.last) continue;
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodepointSet CodepointSet::complement() const {
  CodepointSet result;
  uint32_t next = 0;
  for (const CodepointRange& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodepoint) result.ranges_.push_back({next, kLastCodepoint});
  result.normalize();
  return result;
}

CodepointSet CodepointSet::intersection(const CodepointSet& other) const {
  CodepointSet result;
  for (size_t a = 0, b = 0; a < ranges_.size() && b < other.ranges_.size();) {
    const uint32_t first = std::max(ranges_[a].first, other.ranges_[b].first);
    const uint32_t last = std::min(ranges_[a].last, other.ranges_[b].last);
    if (first <= last) result.ranges_.push_back({first, last});
    (ranges_[a].last < other.ranges_[b].last ? a : b)++;
  }
  result.normalize();
  return result;
}

bool CodepointSet::contains(uint32_t codepoint) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), codepoint,
                                      [](uint32_t value, const CodepointRange& range) { return value < range.first; });
  return after != ranges_.begin() && codepoint <= std::prev(after)->last;
}

void append_utf8(uint32_t codepoint, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (codepoint < 0x80) {
    put(codepoint);
  } else if (codepoint < 0x800) {
    put(0xC0 | (codepoint >> 6));
    put(0x80 | (codepoint & 0x3F));
  } else if (codepoint < 0x10000) {
    put(0xE0 | (codepoint >> 12));
    put(0x80 | ((codepoint >> 6) & 0x3F));
    put(0x80 | (codepoint & 0x3F));
  } else {
    put(0xF0 | (codepoint >> 18));
    put(0x80 | ((codepoint >> 12) & 0x3F));
    put(0x80 | ((codepoint >> 6) & 0x3F));
    put(0x80 | (codepoint & 0x3F));
  }
}

bool read_utf8(std::string_view text, std::vector<uint32_t>& codepoints, size_t* bad_byte) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const int more = lead < 0x80                   ? 0
                     : lead >= 0xC2 && lead < 0xE0 ? 1
                     : lead >= 0xE0 && lead < 0xF0 ? 2
                     : lead >= 0xF0 && lead < 0xF5 ? 3
                                                   : -1;
    bool good = more >= 0 && i + static_cast<size_t>(more) < text.size();
    uint32_t value = more <= 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 1; good && k <= more; ++k) {
      const auto byte = static_cast<uint8_t>(text[i + static_cast<size_t>(k)]);
      good = (byte & 0xC0) == 0x80;
      value = value << 6 | (byte & 0x3Fu);
    }
    static constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (!good || value < kLeast[more] || value > kLastCodepoint || (value >= 0xD800 && value < 0xE000)) {
      if (bad_byte != nullptr) *bad_byte = i;
      return false;
    }
    codepoints.push_back(value);
    i += static_cast<size_t>(more) + 1;
  }
  return true;
}

}  // namespace deepinfer
