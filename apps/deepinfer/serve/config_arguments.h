// `deepinfer serve --config FILE`: the options of the file as arguments.  Called by the program before it reads them.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

// arguments: those of the program, its own name not included.  Where they are of `serve` and name a file (TOML, see
// serving/config/config_file.h), its options are added behind them, except those that the arguments have themselves.
// kInvalidArgument with "FILE:LINE: ..." for an option that the command does not have.
Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments, const CLI::App& serve);

}  // namespace deepinfer::cli
