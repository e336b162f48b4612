// The JSON that commands print: one object on one line.
#pragma once

#include <string>

#include "text/json_text.h"

namespace deepinfer::cli {

// The object and a line break.  Bytes that are not UTF-8 become U+FFFD.
inline std::string json_line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace deepinfer::cli
