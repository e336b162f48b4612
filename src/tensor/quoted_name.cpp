#include "tensor/quoted_name.h"

namespace deepinfer {

std::string quoted_name(std::string_view name) {
  constexpr size_t kLongest = 160;
  constexpr char kDigits[] = "0123456789abcdef";
  size_t shown = name.size();
  if (shown > kLongest) {
    shown = kLongest;
    while (shown > 0 && (static_cast<unsigned char>(name[shown]) & 0xC0u) == 0x80u) --shown;  // not inside a character
  }
  std::string text = "\"";
  for (const char c : name.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || c == '"' || c == '\\') {
      text += "\\x";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15u];
    } else {
      text += c;
    }
  }
  if (shown < name.size()) text += "... (" + std::to_string(name.size()) + " bytes)";
  return text + "\"";
}

}  // namespace deepinfer
