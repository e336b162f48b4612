#include "serving/api/stored_answers.h"

#include <algorithm>
#include <utility>

namespace deepinfer::serving {

ApiError bad_request(std::string message) {
  return {400, "invalid_request_error", std::move(message)};
}

ApiError stored_error(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kResourceExhausted:
      return bad_request(status.message());
    case StatusCode::kNotFound:
      return {404, "not_found_error", status.message()};
    default:
      return {500, "internal_error", "The server failed to answer."};
  }
}

HttpResponse stored_answer(const Json& object, const std::vector<std::string>& ignored, ApiMetrics& metrics) {
  HttpResponse response;
  response.body = dump_compact(object);
  if (!ignored.empty()) {
    metrics.ignored(ignored);
    response.headers.emplace_back("deepinfer-ignored", ignored_header(ignored));
  }
  return response;
}

std::string name_in_path(const HttpRequest& request) {
  std::string_view path = request.path;
  for (int i = 0; i < 3; ++i) path.remove_prefix(std::min(path.size(), path.find('/') + 1));
  return std::string(path.substr(0, path.find('/')));
}

}  // namespace deepinfer::serving
