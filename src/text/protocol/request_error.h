// RequestError: why a request was refused before anything was generated, and the body that says so.
// Produced by the request side of text/protocol; a server sends it as it is.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace deepinfer {

struct RequestError {
  enum class Kind {
    kJson,     // the body is not JSON
    kBody,     // JSON of a wrong shape: a missing field, a wrong type, an unknown enumeration value
    kRequest,  // well-formed, but a rule of the protocol is broken
  };
  Kind kind = Kind::kRequest;
  std::string message;
  int http_status = 400;

  // {"error":{"message":...,"type":...,"param":null,"code":...}}, the same for the three protocols.
  std::string body() const;
};

// A parsed request or the reason for its refusal.
template <typename T>
using RequestOr = std::variant<T, RequestError>;

}  // namespace deepinfer
