// check_pattern: can a regular expression of a JSON Schema be compiled?  Called by schema_check.cpp.
#pragma once

#include <string_view>

#include "base/status.h"

namespace deepinfer {

inline constexpr size_t kMaxPatternBytes = 16384;

// Compiles (never runs) an ECMA-262 style expression with PCRE2 under limits of length and nesting, so the cost is
// bounded by the pattern's length.  Error: invalid argument with PCRE2's reason.
Status check_pattern(std::string_view pattern);

}  // namespace deepinfer
