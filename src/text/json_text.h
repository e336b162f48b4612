// Strict JSON reading and the exact JSON spellings that prompts and protocols need.
// Used by text/protocol and by the prompt encoding; nothing here throws on bad input.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

using Json = nlohmann::ordered_json;

// Deepest nesting of arrays and objects that parse_json accepts.
inline constexpr int kMaxJsonDepth = 127;

// Reads one JSON value (RFC 8259).  Refused: a byte order mark, text after the value, comments, trailing commas, raw
// control characters in strings, bytes that are not UTF-8, lone surrogate escapes, NaN, numbers outside the double
// range, nesting deeper than kMaxJsonDepth.  A repeated key keeps its first place and its last value.  Integers of the
// signed and unsigned 64-bit ranges keep their digits, larger ones and "-0" become doubles.
// Linear in the text; no recursion.
Result<Json> parse_json(std::string_view text);

// Adds a member without looking for an equal key (ordered_json's own insertion scans the object each time).
void append_member(Json& object, std::string key, Json value);

// Python's json.dumps(value, ensure_ascii=False): ", " and ": " between, floats as repr prints them.
void append_python(std::string& out, const Json& value);
std::string dump_python(const Json& value);

// No white space at all; floats in the spelling of Rust's serde_json (what the reference answers with).
void append_compact(std::string& out, const Json& value);
std::string dump_compact(const Json& value);

// `text` as the inside of a JSON string: escapes `"`, `\` and C0 controls only.  Bytes pass unchecked.
void append_json_escaped(std::string& out, std::string_view text);
// `text` as a JSON string with its quotes; every byte that is not part of valid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace deepinfer
