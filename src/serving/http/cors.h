// Cross-origin requests from browsers: off unless origins are listed.  Pure; used by the connection.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serving/http/http_exchange.h"

namespace deepinfer::serving {

// Whether a browser page of the request's origin may read the answer: its "origin" field stands in the list, or the
// list has "*".  False for requests without that field.
bool allows_origin(const std::vector<std::string>& origins, const HttpRequest& request);

// The answer to a browser's question whether it may send a request, where `request` is that question and its origin is
// allowed.
std::optional<HttpResponse> answer_preflight(const std::vector<std::string>& origins, const HttpRequest& request);

// The fields that let a page of an allowed origin read an answer.
void add_cors_headers(std::string_view origin, HttpHeaders& headers);

}  // namespace deepinfer::serving
