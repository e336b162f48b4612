// An option that takes one of a few names.  A name that is none of them is an error that lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer::cli {

// Target: T, or an optional of it.
template <typename T, typename Target>
CLI::Option* add_choice(CLI::App& command, const char* name, Target& target,
                        const std::vector<std::pair<std::string, T>>& choices, const std::string& help,
                        const char* group) {
  const auto read = [&target, choices, name](const std::string& text) {
    std::string allowed;
    for (const auto& [choice, value] : choices) {
      if (text == choice) {
        target = value;
        return;
      }
      allowed += (allowed.empty() ? "" : ", ") + choice;
    }
    throw CLI::ValidationError(name, "`" + text + "` is not allowed, allowed: " + allowed);
  };
  return command.add_option_function<std::string>(name, read, help)->type_name("NAME")->group(group);
}

}  // namespace deepinfer::cli
