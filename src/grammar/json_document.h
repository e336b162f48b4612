// read_json_document: JSON from a request, with its order of keys, never deeper than planned and without repeated keys.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

using JsonDocument = nlohmann::ordered_json;

struct JsonLimits {
  size_t bytes = 256 * 1024;
  int depth = 64;
};

// Error: kInvalidArgument; the message begins with `what` and says at which byte.  Nothing recurses.
Result<JsonDocument> read_json_document(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// As Python's json.dumps(ensure_ascii=False) without spaces.
std::string dump_canonical(const JsonDocument& value);

}  // namespace deepinfer
