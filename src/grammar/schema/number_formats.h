// The values of `format` that are about numbers (OpenAPI's registry).
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/schema/number_rules.h"

namespace deepinfer {

// int32 and int64 are ranges; float and double say how a reader keeps a number, not which ones there are.
bool is_number_format(std::string_view format);
// What `format` leaves of the bounds; other formats are about strings and leave all.
void narrow_to_format(std::string_view format, NumberBounds& bounds);

}  // namespace deepinfer
