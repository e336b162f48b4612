// A body of multipart/form-data (RFC 7578), as clients upload files.  A pure function, strict and bounded: whatever two
// readers could understand in two ways is refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer::serving {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;  // never a path to be opened: any text of valid UTF-8 without control characters
  std::string_view content;             // of the body
};

inline constexpr size_t kMostFormParts = 32;
inline constexpr size_t kMostFormHeadBytes = 4096;  // of one part
inline constexpr size_t kMostFormNameBytes = 256;   // of a name or filename

// content_type: of the request.  Names are unique.  kInvalidArgument says what is wrong and with which part.
Result<std::vector<FormPart>> parse_multipart_form(std::string_view content_type, std::string_view body);

}  // namespace deepinfer::serving
