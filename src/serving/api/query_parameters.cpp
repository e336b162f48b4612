#include "serving/api/query_parameters.h"

#include <algorithm>
#include <utility>

namespace deepinfer::serving {
namespace {

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hexadecimal(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hexadecimal(text[i + 2]) : -1;
    if (high < 0 || low < 0) return invalid_argument("the query has a bad escape");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

Result<std::map<std::string, std::string>> parse_query(std::string_view query) {
  std::map<std::string, std::string> parameters;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    if (one.empty()) continue;
    const size_t equals = std::min(one.find('='), one.size());
    DI_ASSIGN_OR_RETURN(std::string name, decode(one.substr(0, equals)));
    DI_ASSIGN_OR_RETURN(std::string value, decode(one.substr(std::min(one.size(), equals + 1))));
    if (!parameters.emplace(std::move(name), std::move(value)).second)
      return invalid_argument("the query has a parameter twice");
  }
  return parameters;
}

}  // namespace deepinfer::serving
