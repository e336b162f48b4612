#include "grammar/schema/decimal.h"

#include <algorithm>

namespace deepinfer {
namespace {

constexpr size_t kMostDigits = 30;

std::strong_ordering compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() <=> b.whole.size();
  if (const int order = a.whole.compare(b.whole); order != 0) return order <=> 0;
  return a.fraction.compare(b.fraction) <=> 0;  // without trailing zeros the order of texts is that of values
}

Int128 whole_of(const Decimal& value) {
  Int128 result = 0;
  for (const char digit : value.whole) result = result * 10 + (digit - '0');
  return result;
}

}  // namespace

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
  if (negative != other.negative) return negative ? std::strong_ordering::less : std::strong_ordering::greater;
  return negative ? compare_magnitude(other, *this) : compare_magnitude(*this, other);
}

std::optional<Decimal> decimal_of(const JsonDocument& number) {
  if (!number.is_number()) return std::nullopt;
  std::string text = number.dump();
  Decimal value;
  if (text[0] == '-') {
    value.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string::npos) {
    exponent = std::atoi(text.c_str() + e + 1);
    text.resize(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point) + (point < text.size() ? text.substr(point + 1) : "");
  int whole_digits = static_cast<int>(point) + exponent;
  if (whole_digits > 400 || whole_digits < -400) return std::nullopt;
  if (whole_digits < 0) {
    digits.insert(0, static_cast<size_t>(-whole_digits), '0');
    whole_digits = 0;
  }
  if (digits.size() < static_cast<size_t>(whole_digits))
    digits.append(static_cast<size_t>(whole_digits) - digits.size(), '0');
  value.whole = digits.substr(0, static_cast<size_t>(whole_digits));
  value.whole.erase(0, std::min(value.whole.find_first_not_of('0'), value.whole.size()));
  value.fraction = digits.substr(static_cast<size_t>(whole_digits));
  value.fraction.resize(value.fraction.find_last_not_of('0') + 1);  // npos + 1 is 0
  if (value.whole.empty() && value.fraction.empty()) value.negative = false;
  if (value.whole.size() > kMostDigits || value.fraction.size() > kMostDigits) return std::nullopt;
  return value;
}

Int128 floor_of(const Decimal& value) {
  const Int128 whole = whole_of(value);
  if (!value.negative) return whole;
  return value.integral() ? -whole : -whole - 1;
}

Int128 ceil_of(const Decimal& value) {
  const Int128 whole = whole_of(value);
  if (value.negative) return -whole;
  return value.integral() ? whole : whole + 1;
}

std::string to_digits(Int128 value) {
  const bool negative = value < 0;
  if (negative) value = -value;
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value > 0);
  if (negative) digits.insert(digits.begin(), '-');
  return digits;
}

bool is_multiple(const Decimal& value, const Decimal& step) {
  // Both as integers in units of the smaller last place, by long division on the digits.
  const size_t places = std::max(value.fraction.size(), step.fraction.size());
  const auto scaled = [places](const Decimal& d) {
    return d.whole + d.fraction + std::string(places - d.fraction.size(), '0');
  };
  Int128 divisor = 0;
  for (const char digit : scaled(step)) {
    divisor = divisor * 10 + (digit - '0');
    if (divisor > (Int128{1} << 100)) return false;
  }
  Int128 rest = 0;
  for (const char digit : scaled(value)) rest = (rest * 10 + (digit - '0')) % divisor;
  return rest == 0;
}

}  // namespace deepinfer
