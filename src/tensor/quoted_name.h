// quoted_name: a name from a file as it appears in a message.  Used by the checkpoint reader.
#pragma once

#include <string>
#include <string_view>

namespace deepinfer {

// In double quotes; control characters, quotes and backslashes as \xNN, more than 160 bytes shortened.
std::string quoted_name(std::string_view name);

}  // namespace deepinfer
