// Strict schemas (`"strict": true` in tools and response formats): a subset of JSON Schema, brought into one form.
// Called by text/protocol.
#pragma once

#include <string>
#include <variant>

#include "text/json_text.h"

namespace deepinfer {

enum class StrictUse { kToolParameters, kResponse };

struct StrictError {
  std::string message;
  bool about_shape = false;  // the protocol puts "Invalid ... schema: " in front of the message
};

// The normal form: every object lists all its properties as required and allows no others; keywords outside the subset
// (lengths of strings and arrays, ...) are gone.
std::variant<Json, StrictError> normalize_strict_schema(const Json& schema, StrictUse use);

}  // namespace deepinfer
