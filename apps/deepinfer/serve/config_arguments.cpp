#include "serve/config_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "serving/config/config_file.h"

namespace deepinfer::cli {
namespace {

constexpr std::string_view kOption = "--config";

bool names(std::string_view argument, std::string_view option) {
  return argument.starts_with(option) && (argument.size() == option.size() || argument[option.size()] == '=');
}

std::optional<std::string> config_file(const std::vector<std::string>& arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (!names(arguments[i], kOption)) continue;
    if (arguments[i].size() > kOption.size()) return arguments[i].substr(kOption.size() + 1);
    if (i + 1 < arguments.size()) return arguments[i + 1];
  }
  return std::nullopt;
}

// Letters to insert, delete or exchange between two names.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({diagonal + (a[i] != b[j]), row[j] + 1, row[j + 1] + 1}));
  }
  return row.back();
}

// ", did you mean `port`?": the name that differs in the fewest letters, where these are few.
std::string nearest(std::string_view name, const CLI::App& serve) {
  std::string best;
  size_t fewest = 1 + std::max<size_t>(2, name.size() / 3);
  for (const CLI::Option* option : serve.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      if ("--" + known == kOption || known == "help") continue;
      if (const size_t letters = distance(name, known); letters < fewest) {
        fewest = letters;
        best = known;
      }
    }
  }
  return best.empty() ? "" : "; did you mean `" + best + "`?";
}

}  // namespace

Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments, const CLI::App& serve) {
  if (arguments.empty() || arguments.front() != serve.get_name()) return arguments;
  const std::optional<std::string> path = config_file(arguments);
  if (!path) return arguments;
  DI_ASSIGN_OR_RETURN(const std::vector<serving::ConfigEntry> entries, serving::read_config_file(*path));
  const size_t given = arguments.size();
  for (const serving::ConfigEntry& entry : entries) {
    const std::string name = "--" + entry.option;
    const CLI::Option* option = name == kOption ? nullptr : serve.get_option_no_throw(name);
    if (option == nullptr)
      return invalid_argument(fmt::format("{}:{}: deepinfer serve has no option `{}` for a file{}", *path, entry.line,
                                          entry.option, name == kOption ? "" : nearest(entry.option, serve)));
    // All spellings of the option: -m and --model.
    const bool overruled = std::any_of(
        arguments.begin() + 1, arguments.begin() + static_cast<std::ptrdiff_t>(given),
        [&](const std::string& argument) {
          const auto& longs = option->get_lnames();
          const auto& shorts = option->get_snames();
          return std::any_of(longs.begin(), longs.end(), [&](const auto& n) { return names(argument, "--" + n); }) ||
                 std::any_of(shorts.begin(), shorts.end(),
                             [&](const auto& n) { return argument.starts_with("-" + n); });
        });
    if (overruled) continue;
    const bool flag = option->get_items_expected_max() == 0;
    if (flag && entry.values != std::vector<std::string>{"true"} && entry.values != std::vector<std::string>{"false"})
      return invalid_argument(fmt::format("{}:{}: `{}` is true or false", *path, entry.line, entry.option));
    for (const std::string& value : entry.values)
      if (!flag || value == "true") arguments.push_back(flag ? name : fmt::format("{}={}", name, value));
  }
  return arguments;
}

}  // namespace deepinfer::cli
