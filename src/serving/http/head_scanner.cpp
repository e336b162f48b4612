#include "serving/http/head_scanner.h"

#include <string>

namespace deepinfer::serving {

HttpError HeadScanner::too_large() const {
  if (lines_ == 0) {
    return {414, "the request line is longer than the limit of " + std::to_string(limits_.bytes) + " bytes",
            HttpRefusal::kHeaderTooLarge};
  }
  return {431, "the request head is larger than the limit of " + std::to_string(limits_.bytes) + " bytes",
          HttpRefusal::kHeaderTooLarge};
}

std::optional<HttpError> HeadScanner::scan(std::string_view received) {
  while (head_bytes_ == 0 && at_ < received.size()) {
    if (at_ >= limits_.bytes) return too_large();
    const auto c = static_cast<unsigned char>(received[at_]);
    if (c == '\r') {
      if (at_ + 1 >= limits_.bytes) return too_large();
      if (at_ + 1 == received.size()) break;  // its LF may still come
      if (received[at_ + 1] != '\n') return HttpError{400, "the request head has a CR without an LF"};
      at_ += 2;
      if (at_ == line_start_ + 2) {  // a blank line
        head_bytes_ = at_;
        break;
      }
      line_start_ = at_;
      ++lines_;
      if (lines_ > limits_.fields + 1) {
        return HttpError{431, "the request has more than " + std::to_string(limits_.fields) + " header fields",
                         HttpRefusal::kHeaderTooLarge};
      }
      continue;
    }
    if (c == '\n') return HttpError{400, "the request head has an LF without a CR"};
    if ((c < 0x20 && c != '\t') || c == 0x7F) return HttpError{400, "the request head has a control character"};
    if (at_ == line_start_ && (c == ' ' || c == '\t')) {
      return HttpError{400, "a line of the request head begins with a space"};
    }
    ++at_;
  }
  return std::nullopt;
}

}  // namespace deepinfer::serving
