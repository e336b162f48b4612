// The head of an answer as it goes to the client.  Pure; used by the connection.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "serving/http/http_exchange.h"

namespace deepinfer::serving {

enum class Framing {
  kLength,      // content-length
  kChunked,     // transfer-encoding: chunked
  kUntilClose,  // an HTTP/1.0 client: the body ends with the connection
};

struct ResponseForm {
  Framing framing = Framing::kLength;
  std::size_t body_bytes = 0;  // kLength
  bool http_1_0 = false;
  bool keep_alive = true;
  std::string_view request_id;
};

// Statuses whose answers have no body and no content-length: 1xx, 204, 304.
bool has_no_body(int status);

// Status line, fields and the blank line.  A control character in a field of `response` becomes a space: an answer that
// repeats a request's bytes cannot write fields of its own.
std::string write_response_head(const HttpResponse& response, const ResponseForm& form);

}  // namespace deepinfer::serving
