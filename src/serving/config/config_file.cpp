#include "serving/config/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "base/bounded_file.h"

namespace deepinfer::serving {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

struct Reading {
  const std::string& name;
  std::vector<ConfigEntry> entries = {};
  std::set<std::string> seen = {};
};

Status fail(const Reading& reading, const toml::source_region& source, const std::string& message) {
  return invalid_argument(reading.name + ":" + std::to_string(source.begin.line) + ": " + message);
}

// The text that an option's value has on the command line; empty optional for what has none.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point(); number != nullptr && std::isfinite(number->get())) {
    std::ostringstream out;
    out.precision(17);
    out << number->get();
    return out.str();
  }
  return std::nullopt;
}

Status read_table(const toml::table& table, const std::string& prefix, Reading& reading) {
  for (const auto& [key, node] : table) {
    std::string option = prefix + std::string(key.str());
    std::replace(option.begin(), option.end(), '_', '-');
    if (const auto* inner = node.as_table()) {
      DI_RETURN_IF_ERROR(read_table(*inner, option + "-", reading));
      continue;
    }
    ConfigEntry entry{option, {}, static_cast<int>(node.source().begin.line)};
    const auto add = [&](const toml::node& value) {
      auto text = text_of(value);
      if (!text) return false;
      entry.values.push_back(std::move(*text));
      return true;
    };
    bool fits = true;
    if (const auto* array = node.as_array()) {
      for (const toml::node& value : *array) fits = fits && add(value);
    } else {
      fits = add(node);
    }
    if (!fits) {
      return fail(reading, node.source(),
                  option + ": the value is neither text, a finite number, true, false nor an array of these");
    }
    if (!reading.seen.insert(option).second) return fail(reading, node.source(), option + " is there twice");
    reading.entries.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

Result<std::vector<ConfigEntry>> parse_config(std::string_view text, const std::string& name) {
  Reading reading{name};
  try {
    const toml::table table = toml::parse(text, name);
    DI_RETURN_IF_ERROR(read_table(table, "", reading));
  } catch (const toml::parse_error& error) {
    return fail(reading, error.source(), std::string(error.description()));
  }
  std::sort(reading.entries.begin(), reading.entries.end(),
            [](const ConfigEntry& a, const ConfigEntry& b) { return a.line < b.line; });
  return std::move(reading.entries);
}

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_bounded_file(path, kMaxFileBytes));
  return parse_config(text, path);
}

}  // namespace deepinfer::serving
