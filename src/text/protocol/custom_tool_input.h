// CustomToolInput: the text that a custom tool gets, out of the call's arguments `{"input": "..."}` as they stream.
// Used by the Responses writer, whose custom_tool_call events carry the decoded string.
#pragma once

#include <string>
#include <string_view>

namespace deepinfer {

class CustomToolInput {
 public:
  // Feeds the next piece of the arguments; returns the text that became known with it.  Arguments of another form are
  // passed on as they are.
  std::string push(std::string_view arguments);
  // Everything so far.
  const std::string& text() const { return text_; }

 private:
  enum class State { kHead, kString, kEscape, kUnicode, kDone, kVerbatim };

  State state_ = State::kHead;
  std::string head_;    // kHead: what was read of `{"input": "`
  std::string escape_;  // kUnicode: hexadecimal digits
  std::string text_;
};

}  // namespace deepinfer
