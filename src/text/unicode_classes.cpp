#include "text/unicode_classes.h"

#include <utf8proc.h>

#include <map>

namespace deepinfer {
namespace {

constexpr char32_t kBlock = 128;

// The White_Space property, which utf8proc does not offer.  Stable since Unicode 6.3.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

CharClass classify(char32_t c) {
  if (c == '\r' || c == '\n') return CharClass::kNewline;
  if (is_white_space(c)) return CharClass::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return CharClass::kSymbol;
    default:
      return CharClass::kOther;
  }
}

// Planes 4 to 13 have no characters, planes 15 and 16 are for private use: \p{C} throughout.
bool is_empty_plane(char32_t c) {
  return (c >= 0x40000 && c < 0xE0000) || c >= 0xF0000;
}

}  // namespace

CharClassTable::CharClassTable() {
  std::map<std::array<CharClass, kBlock>, std::uint16_t> known;
  std::array<CharClass, kBlock> block;
  for (char32_t first = 0; first < 0x110000; first += kBlock) {
    for (char32_t i = 0; i < kBlock; ++i) block[i] = is_empty_plane(first) ? CharClass::kOther : classify(first + i);
    const auto [entry, added] = known.emplace(block, static_cast<std::uint16_t>(known.size()));
    if (added) classes_.insert(classes_.end(), block.begin(), block.end());
    blocks_[first / kBlock] = entry->second;
  }
}

const CharClassTable& CharClassTable::instance() {
  static const CharClassTable table;
  return table;
}

}  // namespace deepinfer
