// The target of a request line and the Host field, read once and strictly.  Pure functions; used by the request reader,
// so that routes and access rules see one spelling of a path and no other.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer::serving {

struct RequestTarget {
  std::string path;       // as HttpRequest::path
  std::string query;      // as sent
  std::string authority;  // of an absolute target ("http://HOST/..."), else empty
};

// Origin form ("/path?query") and absolute form of http and https.  The path is percent-decoded exactly once, then
// empty and dot segments go.  kInvalidArgument for everything else: other forms, a fragment, bytes that are not visible
// ASCII, bad escapes, decoded control characters or bytes that are not UTF-8, and ".." above the root.
Result<RequestTarget> parse_request_target(std::string_view target);

// The name in "NAME", "NAME:PORT", "1.2.3.4:PORT" or "[::1]:PORT", in lower case, brackets kept; nothing where the
// authority is malformed (user information, a bad port or characters, an empty name).
std::optional<std::string> host_name(std::string_view authority);

}  // namespace deepinfer::serving
