#include "serving/http/http_exchange.h"

namespace deepinfer::serving {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [field, value] : headers)
    if (field == name) return value;
  return {};
}

}  // namespace deepinfer::serving
