// Strict reading of numbers from options: the whole text, no NaN, no infinity, no wrap-around, and a range in the
// message.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace deepinfer::cli {

template <typename T>
struct NumberRange {
  T lowest = std::numeric_limits<T>::lowest();
  T highest = std::numeric_limits<T>::max();
  bool lowest_excluded = false;

  bool contains(T value) const { return (lowest_excluded ? value > lowest : value >= lowest) && value <= highest; }
  // "[0, 1]", "(0, 1]", "at least 0"
  std::string text() const {
    if (highest != std::numeric_limits<T>::max())
      return fmt::format("{}{}, {}]", lowest_excluded ? '(' : '[', lowest, highest);
    if (std::is_unsigned_v<T> || lowest != std::numeric_limits<T>::lowest())
      return fmt::format("{} {}", lowest_excluded ? "above" : "at least", lowest);
    return "any number";
  }
};

// invalid argument: "`x` is not a number" or "7 is out of range, allowed: [0, 1]".
template <typename T>
Result<T> parse_number(std::string_view text, const NumberRange<T>& range) {
  constexpr const char* kind = std::is_floating_point_v<T> ? "a number" : "a whole number";
  // A number may be too large for its type and still be a number: it is out of range then, not malformed.
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (error == std::errc::invalid_argument || !whole) {
    // "-1" for an unsigned option is a number outside of the range.
    long long negative = 0;
    const auto [negative_end, negative_error] = std::from_chars(text.data(), text.data() + text.size(), negative);
    if (std::is_integral_v<T> && negative_error == std::errc() && negative_end == text.data() + text.size() &&
        negative < 0)
      return invalid_argument(fmt::format("{} is out of range, allowed: {}", text, range.text()));
    return invalid_argument(fmt::format("`{}` is not {}, allowed: {}", text, kind, range.text()));
  }
  if (error == std::errc::result_out_of_range || !range.contains(value))
    return invalid_argument(fmt::format("{} is out of range, allowed: {}", text, range.text()));
  return value;
}

}  // namespace deepinfer::cli
