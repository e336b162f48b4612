// Numbers in JSON text as rules: exact ranges and multiples.
#pragma once

#include <optional>

#include "grammar/rule_set.h"
#include "grammar/schema/decimal.h"

namespace deepinfer {

struct NumberBounds {
  std::optional<Decimal> least;
  bool above_least = false;  // exclusive
  std::optional<Decimal> most;
  bool below_most = false;
  bool bounded() const { return least || most; }
};

// Integers are written without point and exponent.
Choices integers(RuleSet& rules, const NumberBounds& bounds);
// Numbers with bounds have no exponent; others one of up to 3 digits.
Choices numbers(RuleSet& rules, const NumberBounds& bounds);
// Integers that `step` (2 or more) divides.  None where that takes too many rules (a step above 100 without bounds,
// more than 1000 values within them).
std::optional<Choices> integer_multiples(RuleSet& rules, const NumberBounds& bounds, Int128 step);
// Numbers with at most `places` digits behind the point that are not zero.
Choices decimals(RuleSet& rules, int places);

}  // namespace deepinfer
