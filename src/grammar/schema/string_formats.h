// The values of `format` that are enforced, as regular expressions of whole strings.
#pragma once

#include <optional>
#include <string_view>

namespace deepinfer {

// None: not known, or not expressible.  Every string that matches has the format; rare spellings are left out
// (docs/structured-output.md lists them).
std::optional<std::string_view> format_pattern(std::string_view format);

}  // namespace deepinfer
