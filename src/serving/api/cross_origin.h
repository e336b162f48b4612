// Pages of other origins that use a server which asks for no key: a browser sends some of their requests without asking
// the server first, and only hides the answer from them.  Pure functions.
#pragma once

#include <string>
#include <vector>

#include "serving/api/api_error.h"
#include "serving/http/http_exchange.h"

namespace deepinfer::serving {

// 403 for a request that changes or computes something and comes from a page of neither this server nor an origin in
// the list ("*": all).
std::optional<ApiError> check_origin(const HttpRequest& request, const std::vector<std::string>& allowed);

// 415 for a POST whose body says that it is something else than JSON; `form`: than multipart/form-data.  A body
// without content-type is taken for JSON.
std::optional<ApiError> check_content_type(const HttpRequest& request, bool form);

}  // namespace deepinfer::serving
