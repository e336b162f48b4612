// HeadScanner: finds the end of a request's head and refuses what two HTTP parsers could read in two ways, which the
// parser behind it would let pass.  Pure; used by the request reader.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "serving/http/http_refusal.h"

namespace deepinfer::serving {

struct HeadLimits {
  std::size_t bytes = 0;
  std::size_t fields = 0;
};

class HeadScanner {
 public:
  explicit HeadScanner(HeadLimits limits) : limits_(limits) {}

  // Looks on from where the last call ended: `received` is what the last call saw and more.  Refused: a CR or LF that
  // is not half of a CRLF, a folded line, a control character, and more than the limits.
  std::optional<HttpError> scan(std::string_view received);
  // Bytes of the head with the blank line behind it; 0 while that is not there.
  std::size_t head_bytes() const { return head_bytes_; }

 private:
  HttpError too_large() const;

  HeadLimits limits_;
  std::size_t at_ = 0;  // bytes looked at
  std::size_t line_start_ = 0;
  std::size_t lines_ = 0;  // finished ones, the request line included
  std::size_t head_bytes_ = 0;
};

}  // namespace deepinfer::serving
