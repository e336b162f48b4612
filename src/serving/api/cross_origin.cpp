#include "serving/api/cross_origin.h"

#include <algorithm>
#include <string_view>

namespace deepinfer::serving {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

// "HOST:PORT" of "https://HOST:PORT"; of other origins ("null") nothing that a host could be.
std::string_view authority_of(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

}  // namespace

std::optional<ApiError> check_origin(const HttpRequest& request, const std::vector<std::string>& allowed) {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || request.method == "GET" || request.method == "HEAD") return std::nullopt;
  const std::string own = lower(request.header("host")), asks = lower(authority_of(origin));
  if (!asks.empty() && asks == own) return std::nullopt;
  const auto allows = [&](const std::string& one) { return one == "*" || one == origin; };
  if (std::any_of(allowed.begin(), allowed.end(), allows)) return std::nullopt;
  return ApiError{403, "permission_error", "Pages of this origin may not use the server."};
}

std::optional<ApiError> check_content_type(const HttpRequest& request, bool form) {
  if (request.method != "POST") return std::nullopt;
  const std::string given = lower(request.header("content-type"));
  std::string_view type = std::string_view(given).substr(0, given.find(';'));
  type = type.substr(0, type.find_last_not_of(" \t") + 1);
  if (type.empty() && !form) return std::nullopt;
  if (form ? type == "multipart/form-data" : type == "application/json" || type.ends_with("+json")) return std::nullopt;
  return ApiError{415, "invalid_request_error",
                  std::string("The body needs the header `content-type: ") +
                      (form ? "multipart/form-data`." : "application/json`.")};
}

}  // namespace deepinfer::serving
