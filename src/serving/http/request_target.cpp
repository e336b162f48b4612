#include "serving/http/request_target.h"

#include <algorithm>
#include <vector>

#include "text/utf8.h"

namespace deepinfer::serving {
namespace {

bool is_visible_ascii(char c) {
  return c > 0x20 && c < 0x7F;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 1 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) return invalid_argument("the request target has a % that two hex digits do not follow");
      c = static_cast<char>(high << 4 | low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      return invalid_argument("the path of the request target has a control character");
    out.push_back(c);
  }
  if (!is_valid_utf8(out)) return invalid_argument("the path of the request target is not UTF-8");
  return out;
}

// "/a//b/./c/../d/" to "/a/b/d".
Result<std::string> without_dot_segments(std::string_view path) {
  std::vector<std::string_view> segments;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    if (segment == "..") {
      if (segments.empty()) return invalid_argument("the path of the request target leads above the root");
      segments.pop_back();
    } else if (!segment.empty() && segment != ".") {
      segments.push_back(segment);
    }
    at = end + 1;
  }
  std::string out;
  out.reserve(path.size());
  for (const std::string_view segment : segments) out.append("/").append(segment);
  if (out.empty()) out.push_back('/');
  return out;
}

bool starts_with_scheme(std::string_view target, std::string_view scheme) {
  return target.size() >= scheme.size() && lower(target.substr(0, scheme.size())) == scheme;
}

}  // namespace

Result<RequestTarget> parse_request_target(std::string_view target) {
  if (!std::all_of(target.begin(), target.end(), is_visible_ascii))
    return invalid_argument("the request target has a character that is not visible ASCII");
  if (target.find('#') != target.npos) return invalid_argument("the request target has a fragment");
  RequestTarget read;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!starts_with_scheme(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    read.authority = target.substr(0, end);
    if (!host_name(read.authority)) return invalid_argument("the request target names no valid host");
    target.remove_prefix(end);
    break;
  }
  const std::size_t mark = std::min(target.find('?'), target.size());
  std::string_view path = target.substr(0, mark);
  if (path.empty() && !read.authority.empty()) path = "/";
  if (path.empty() || path.front() != '/') return invalid_argument("the request target must begin with /");
  if (mark < target.size()) read.query = target.substr(mark + 1);
  DI_ASSIGN_OR_RETURN(const std::string decoded, percent_decoded(path));
  DI_ASSIGN_OR_RETURN(read.path, without_dot_segments(decoded));
  return read;
}

std::optional<std::string> host_name(std::string_view authority) {
  std::size_t end = 0;  // of the name
  if (authority.starts_with('[')) {
    end = authority.find(']');
    if (end == authority.npos) return std::nullopt;
    ++end;
    const std::string_view address = authority.substr(1, end - 2);
    const auto allowed = [](char c) { return hex_value(c) >= 0 || c == ':' || c == '.'; };
    if (address.empty() || !std::all_of(address.begin(), address.end(), allowed)) return std::nullopt;
  } else {
    end = std::min(authority.find(':'), authority.size());
    const auto allowed = [](char c) {
      return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' || c == '.' || c == '_' || c == '~';
    };
    const std::string_view name = authority.substr(0, end);
    if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) return std::nullopt;
  }
  const std::string_view port = authority.substr(end);  // ":8000" or nothing
  if (!port.empty()) {
    const std::string_view digits = port.substr(1);
    if (port.front() != ':' || digits.size() > 5 || !std::all_of(digits.begin(), digits.end(), is_digit))
      return std::nullopt;
  }
  return lower(authority.substr(0, end));
}

}  // namespace deepinfer::serving
