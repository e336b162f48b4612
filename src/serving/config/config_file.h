// A file of options in TOML, for `--config FILE`: the same names as on the command line.  Called by the program before
// its options are parsed; knows none of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer::serving {

struct ConfigEntry {
  std::string option;  // without dashes in front: "tls-cert" for both tls-cert and tls_cert, and for cert in [tls]
  std::vector<std::string> values;  // one, or those of an array
  int line = 0;                     // in the file, from 1
};

// In the order of the file's lines.  Values are strings, whole numbers, finite numbers, true, false, and arrays of
// these. kNotFound, kIoError: the file; kInvalidArgument with "FILE:LINE: ...": text that is not TOML, other kinds of
// values, and an option that is there twice.
Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);
// The same for the text of a file called `name` in messages.
Result<std::vector<ConfigEntry>> parse_config(std::string_view text, const std::string& name);

}  // namespace deepinfer::serving
