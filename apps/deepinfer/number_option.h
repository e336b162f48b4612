// Numeric options of the command line with their range checked while they are parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "number_text.h"

namespace deepinfer::cli {

// Adds an option that takes one number; `target` is set when the option is given.
template <typename T>
CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<T>& target, const NumberRange<T>& range,
                        const std::string& help) {
  const auto read = [&target, range, name](const std::string& text) {
    Result<T> value = parse_number<T>(text, range);
    if (!value.ok()) throw CLI::ValidationError(name, value.status().message());
    target = *value;
  };
  return app.add_option_function<std::string>(name, read, help)
      ->type_name(std::is_floating_point_v<T> ? "NUMBER" : "N");
}

}  // namespace deepinfer::cli
