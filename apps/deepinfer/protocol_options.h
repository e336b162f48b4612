// Which protocol the requests of others speak and what they may call the model: options that `batch` and `serve` share.
#pragma once

#include <string>
#include <vector>

#include "text/protocol/inference_request.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

struct ProtocolCommandOptions {
  std::vector<std::string> model_names;  // empty: DeepSeek-V4.1-Flash and the model's own
  Profile profile = Profile::kExtended;

  // loaded_name: the name of the model's folder.
  void apply(const std::string& loaded_name, ProtocolOptions& protocol) const;
};

// names_option: how the command calls the option of the names, such as "--model-name".  options outlives the parsing.
void add_protocol_options(CLI::App& command, const std::string& names_option, ProtocolCommandOptions& options);

}  // namespace deepinfer::cli
