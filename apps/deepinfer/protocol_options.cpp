#include "protocol_options.h"

#include <CLI/CLI.hpp>

namespace deepinfer::cli {

void ProtocolCommandOptions::apply(const std::string& loaded_name, ProtocolOptions& protocol) const {
  protocol.profile = profile;
  protocol.models = model_names;
  if (!model_names.empty()) return;
  protocol.models = {"DeepSeek-V4.1-Flash"};
  if (loaded_name != protocol.models.front()) protocol.models.push_back(loaded_name);
}

void add_protocol_options(CLI::App& command, const std::string& names_option, ProtocolCommandOptions& options) {
  command
      .add_option(names_option, options.model_names,
                  "a name that `model` of a request may have (may be repeated; default: DeepSeek-V4.1-Flash and the "
                  "model's own)")
      ->type_name("NAME")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command
      .add_option_function<std::string>(
          "--api-profile",
          [&options](const std::string& name) {
            if (name != "deepseek" && name != "extended")
              throw CLI::ValidationError("--api-profile", "`" + name + "` is not allowed, allowed: extended, deepseek");
            options.profile = name == "deepseek" ? Profile::kDeepSeek : Profile::kExtended;
          },
          "extended (default), or deepseek: the official API without extensions")
      ->type_name("NAME");
}

}  // namespace deepinfer::cli
