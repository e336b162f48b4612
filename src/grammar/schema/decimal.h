// Decimal: a JSON number's exact value, for bounds.  Used by the number rules and by check of enum values.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "grammar/json_document.h"

namespace deepinfer {

using Int128 = __int128;

struct Decimal {
  bool negative = false;  // never for zero
  std::string whole;      // digits without leading zeros; empty for 0
  std::string fraction;   // digits without trailing zeros

  bool integral() const { return fraction.empty(); }
  std::strong_ordering operator<=>(const Decimal& other) const;
  bool operator==(const Decimal& other) const = default;
  Decimal magnitude() const { return {false, whole, fraction}; }
};

// None for numbers of more than 30 digits in front of or behind the point.
std::optional<Decimal> decimal_of(const JsonDocument& number);
// Largest integer not above, smallest not below.
Int128 floor_of(const Decimal& value);
Int128 ceil_of(const Decimal& value);
std::string to_digits(Int128 value);
// Whether value / step is an integer; step is not zero.
bool is_multiple(const Decimal& value, const Decimal& step);

}  // namespace deepinfer
