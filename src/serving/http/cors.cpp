#include "serving/http/cors.h"

#include <algorithm>

namespace deepinfer::serving {

bool allows_origin(const std::vector<std::string>& origins, const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return false;
  return std::any_of(origins.begin(), origins.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

std::optional<HttpResponse> answer_preflight(const std::vector<std::string>& origins, const HttpRequest& request) {
  if (request.method != "OPTIONS" || request.header("access-control-request-method").empty()) return std::nullopt;
  if (!allows_origin(origins, request)) return std::nullopt;
  HttpResponse response;
  response.status = 204;
  response.headers = {{"access-control-allow-methods", "GET, POST, DELETE, OPTIONS"},
                      {"access-control-max-age", "600"}};
  // What the page wants to send; the routes look at few fields and ignore the others.
  if (const std::string_view wanted = request.header("access-control-request-headers"); !wanted.empty())
    response.headers.emplace_back("access-control-allow-headers", wanted);
  return response;
}

void add_cors_headers(std::string_view origin, HttpHeaders& headers) {
  headers.emplace_back("access-control-allow-origin", origin);
  headers.emplace_back("access-control-expose-headers", "*");
  headers.emplace_back("vary", "origin");
}

}  // namespace deepinfer::serving
