// StrictJson: one JSON text of a model folder, parsed completely before any of it is used.  Used by the checkpoint
// reader only; not part of the library's public headers.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <span>

#include "base/status.h"

namespace deepinfer {

class StrictJson {
 public:
  static constexpr size_t kMaxDepth = 16;  // of nested objects and arrays: weight files need 3

  // The root.  Its strings live as long as this object, the text need not.  Objects keep the order and the duplicates
  // of their keys.  A kCorruptFile message names the byte, counted from first_byte, where it can be told.
  Result<simdjson::dom::element> parse(std::span<const std::byte> text, uint64_t first_byte);

 private:
  simdjson::dom::parser parser_;
};

// For messages: "a string", "an array", ...
const char* kind_of(simdjson::dom::element value);

}  // namespace deepinfer
