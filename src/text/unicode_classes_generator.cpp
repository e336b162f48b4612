// Build-time program: writes the table of unicode_classes.h, from utf8proc's categories, as C++ to standard output.
// (Asking utf8proc for a third of a million characters at every start would take 10 ms.)
#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "text/unicode_classes.h"

namespace deepinfer {
namespace {

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

void print_table() {
  std::map<std::array<CharClass, kCharClassBlock>, std::size_t> known;
  std::vector<std::array<CharClass, kCharClassBlock>> blocks;
  std::printf("// Written by unicode_classes_generator.cpp from utf8proc %s.\n", utf8proc_version());
  std::printf("#include \"text/unicode_classes.h\"\n\nnamespace deepinfer {\n\n");
  std::printf("const std::uint16_t kCharClassBlocks[0x110000 / kCharClassBlock] = {");
  for (char32_t first = 0; first < 0x110000; first += kCharClassBlock) {
    std::array<CharClass, kCharClassBlock> block;
    for (char32_t i = 0; i < kCharClassBlock; ++i) block[i] = classify(first + i);
    const auto [entry, added] = known.emplace(block, blocks.size());
    if (added) blocks.push_back(block);
    std::printf("%s%zu,", first % (16 * kCharClassBlock) == 0 ? "\n" : " ", entry->second);
  }
  std::printf("\n};\n\nconst std::uint8_t kCharClasses[] = {");
  for (const auto& block : blocks) {
    std::printf("\n");
    for (const CharClass c : block) std::printf("%d,", static_cast<int>(c));
  }
  std::printf("\n};\n\n}  // namespace deepinfer\n");
}

}  // namespace
}  // namespace deepinfer

int main() {
  deepinfer::print_table();
  return std::ferror(stdout) != 0 ? 1 : 0;
}
