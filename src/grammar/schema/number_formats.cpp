#include "grammar/schema/number_formats.h"

#include <string>

namespace deepinfer {

bool is_number_format(std::string_view format) {
  return format == "int32" || format == "int64" || format == "float" || format == "double";
}

void narrow_to_format(std::string_view format, NumberBounds& bounds) {
  if (format != "int32" && format != "int64") return;
  const bool wide = format == "int64";
  const Decimal least{true, wide ? "9223372036854775808" : "2147483648", ""};
  const Decimal most{false, wide ? "9223372036854775807" : "2147483647", ""};
  if (!bounds.least || *bounds.least < least) {
    bounds.least = least;
    bounds.above_least = false;
  }
  if (!bounds.most || *bounds.most > most) {
    bounds.most = most;
    bounds.below_most = false;
  }
}

}  // namespace deepinfer
