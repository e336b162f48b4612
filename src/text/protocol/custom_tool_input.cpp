#include "text/protocol/custom_tool_input.h"

#include <cstdlib>

#include "text/utf8.h"

namespace deepinfer {
namespace {
constexpr std::string_view kHead = "{\"input\": \"";
}

std::string CustomToolInput::push(std::string_view arguments) {
  std::string out;
  for (const char c : arguments) {
    switch (state_) {
      case State::kHead:
        head_ += c;
        if (head_ == kHead) {
          state_ = State::kString;
        } else if (!kHead.starts_with(head_)) {
          state_ = State::kVerbatim;
          out += head_;
        }
        break;
      case State::kString:
        if (c == '\\') {
          state_ = State::kEscape;
        } else if (c == '"') {
          state_ = State::kDone;
        } else {
          out += c;
        }
        break;
      case State::kEscape: {
        state_ = c == 'u' ? State::kUnicode : State::kString;
        constexpr std::string_view names = "nrtbf";
        constexpr std::string_view values = "\n\r\t\b\f";
        const size_t place = names.find(c);
        if (c != 'u') out += place == std::string_view::npos ? c : values[place];
        break;
      }
      case State::kUnicode:
        escape_ += c;
        if (escape_.size() == 4) {  // the parser escapes nothing but control characters in this form
          append_utf8(static_cast<char32_t>(std::strtoul(escape_.c_str(), nullptr, 16)), out);
          escape_.clear();
          state_ = State::kString;
        }
        break;
      case State::kDone:
        break;
      case State::kVerbatim:
        out += c;
        break;
    }
  }
  text_ += out;
  return out;
}

}  // namespace deepinfer
