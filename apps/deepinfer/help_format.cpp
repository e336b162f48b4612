#include "help_format.h"

#include <sstream>

namespace deepinfer::cli {
namespace {

constexpr size_t kColumn = 32;  // where descriptions begin
constexpr size_t kLineWidth = 110;

std::string wrapped(const std::string& text, size_t width) {
  std::istringstream words(text);
  std::string word, out;
  size_t used = 0;
  while (words >> word) {
    if (used > 0 && used + 1 + word.size() > width) {
      out += '\n';
      used = 0;
    } else if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out;
}

}  // namespace

HelpFormat::HelpFormat() {
  column_width(kColumn);
}

std::string HelpFormat::make_usage(const CLI::App* app, std::string name) const {
  for (const CLI::App* parent = app->get_parent(); parent != nullptr; parent = parent->get_parent())
    name = parent->get_name() + " " + name;
  return CLI::Formatter::make_usage(app, name);
}

// What an option excludes or needs is said when it is broken.
std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  return option->get_type_name().empty() ? "" : " " + option->get_type_name();
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), kLineWidth - kColumn);
}

}  // namespace deepinfer::cli
