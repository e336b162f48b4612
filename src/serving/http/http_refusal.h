// HttpRefusal: why the transport itself refused a request or cut a connection; counted one by one (http_server.h).
// HttpError: the same with what the client is told.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace deepinfer::serving {

enum class HttpRefusal {
  kMalformed,           // a head, target, body framing or Host that breaks the rules
  kHeaderTooLarge,      // too many bytes or fields
  kBodyTooLarge,        // of one request
  kBodyMemory,          // of all requests together
  kHeaderTimeout,       // the head took too long
  kBodyTimeout,         // the body took too long
  kSlowReader,          // the client did not take its answer
  kTooManyConnections,  // in all
  kTooManyFromPeer,     // from one address
  kHostNotAllowed,
  kDraining,
  kTlsHandshake,
  kNoDescriptors,  // the process has no file descriptor left for a connection; it waits in the listener's queue
};
inline constexpr std::size_t kHttpRefusals = 13;

std::string_view to_string(HttpRefusal refusal);  // "header_timeout", for metrics

struct HttpError {
  int status = 400;
  std::string message;
  HttpRefusal reason = HttpRefusal::kMalformed;
};

}  // namespace deepinfer::serving
