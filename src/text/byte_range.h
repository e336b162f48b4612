// ByteRange: a half-open range of byte offsets in a text; marks the control tokens of a prompt.
#pragma once

#include <cstddef>

namespace deepinfer {

struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace deepinfer
