// How --help looks: the whole command in the usage line, one line an option, descriptions wrapped.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace deepinfer::cli {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace deepinfer::cli
