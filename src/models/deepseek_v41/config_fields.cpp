#include "models/deepseek_v41/config_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace deepinfer::deepseek_v41 {
namespace {

// A value as it stands in the file, short enough for a message.
std::string shown(simdjson::dom::element element) {
  std::string text = simdjson::to_string(element);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::string range(int64_t low, int64_t high) {
  return fmt::format("an integer from {} to {}", low, high);
}

}  // namespace

std::string ConfigFields::name(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

// A flat file has the keys of text_config at its root.
void ConfigFields::keep(std::string_view key, std::string value) {
  values_->push_back({path_ == "text_config" ? std::string(key) : name(key), std::move(value)});
}

void ConfigFields::fail(std::string_view key, std::string_view value, std::string_view allowed) {
  if (status_.ok()) status_ = corrupt_file(fmt::format("{} is {}; allowed: {}", name(key), value, allowed));
}

bool ConfigFields::has(std::string_view key) const {
  simdjson::dom::element element;
  return object_.at_key(key).get(element) == simdjson::SUCCESS && !element.is_null();
}

std::optional<simdjson::dom::element> ConfigFields::find(std::string_view key, std::string_view allowed) {
  if (!status_.ok()) return std::nullopt;
  simdjson::dom::element element;
  if (object_.at_key(key).get(element) != simdjson::SUCCESS) {
    fail(key, "missing", allowed);
    return std::nullopt;
  }
  return element;
}

int64_t ConfigFields::integer(std::string_view key, int64_t low, int64_t high) {
  const auto element = find(key, range(low, high));
  if (!element) return low;
  int64_t value = 0;
  if (element->get(value) != simdjson::SUCCESS || value < low || value > high) {
    fail(key, shown(*element), range(low, high));
    return low;
  }
  keep(key, std::to_string(value));
  return value;
}

int64_t ConfigFields::integer_or(std::string_view key, int64_t low, int64_t high, int64_t otherwise) {
  if (has(key)) return integer(key, low, high);
  keep(key, std::to_string(otherwise));
  return otherwise;
}

double ConfigFields::number(std::string_view key, double low, double high) {
  const std::string allowed = fmt::format("a number from {} to {}", low, high);
  const auto element = find(key, allowed);
  if (!element) return low;
  double value = 0;  // get_double takes integers too
  if (element->get(value) != simdjson::SUCCESS || !(value >= low && value <= high)) {
    fail(key, shown(*element), allowed);
    return low;
  }
  keep(key, fmt::format("{}", value));
  return value;
}

std::vector<int64_t> ConfigFields::integers(std::string_view key, int64_t low, int64_t high, size_t most) {
  const std::string allowed = fmt::format("at most {} integers from {} to {}", most, low, high);
  std::vector<int64_t> values;
  const auto element = find(key, allowed);
  if (!element) return values;
  simdjson::dom::array array;
  if (element->get(array) != simdjson::SUCCESS || array.size() > most) {
    fail(key, shown(*element), allowed);
    return values;
  }
  values.reserve(array.size());
  for (simdjson::dom::element entry : array) {
    int64_t value = 0;
    if (entry.get(value) != simdjson::SUCCESS || value < low || value > high) {
      fail(fmt::format("{}[{}]", key, values.size()), shown(entry), range(low, high));
      return {};
    }
    values.push_back(value);
  }
  keep(key, fmt::format("[{}]", fmt::join(values.begin(), values.end(), ", ")));
  return values;
}

void ConfigFields::only(std::string_view key, std::string_view value, bool required) {
  if (!required && !has(key)) return;
  const std::string allowed = fmt::format("\"{}\"", value);
  const auto element = find(key, allowed);
  std::string_view text;
  if (element && (element->get(text) != simdjson::SUCCESS || text != value)) fail(key, shown(*element), allowed);
}

void ConfigFields::only(std::string_view key, bool value) {
  if (!has(key)) return;
  const std::string_view allowed = value ? "true" : "false";
  const auto element = find(key, allowed);
  bool found = false;
  if (element && (element->get(found) != simdjson::SUCCESS || found != value)) fail(key, shown(*element), allowed);
}

void ConfigFields::only(std::string_view key, double value) {
  if (!has(key)) return;
  const std::string allowed = fmt::format("{}", value);
  const auto element = find(key, allowed);
  double found = 0;
  if (element && (element->get(found) != simdjson::SUCCESS || found != value)) fail(key, shown(*element), allowed);
}

std::optional<ConfigFields> ConfigFields::object(std::string_view key) {
  const auto element = find(key, "an object");
  if (!element) return std::nullopt;
  simdjson::dom::object nested;
  if (element->get(nested) != simdjson::SUCCESS) {
    fail(key, shown(*element), "an object");
    return std::nullopt;
  }
  return ConfigFields(nested, name(key), *values_);
}

}  // namespace deepinfer::deepseek_v41
