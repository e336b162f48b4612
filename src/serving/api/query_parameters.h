// The query of a request's target, "limit=20&after=ID", as its parameters.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer::serving {

// "+" is a space, %XX a byte.  kInvalidArgument for a bad escape or a name that is there twice.
Result<std::map<std::string, std::string>> parse_query(std::string_view query);

}  // namespace deepinfer::serving
