#include "serving/page/page_routes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "serving/page/page_files.h"

namespace deepinfer::serving {
namespace {

constexpr std::string_view kFolder = "/page/";

// Nothing comes from elsewhere, nothing runs that is not one of the files, and no other page may frame this one.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

std::string_view content_type(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

// if-none-match: "*", or a list of tags, each perhaps marked as weak.
bool names_tag(std::string_view list, std::string_view tag) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (!one.empty() && (one.front() == ' ' || one.front() == '\t')) one.remove_prefix(1);
    while (!one.empty() && (one.back() == ' ' || one.back() == '\t')) one.remove_suffix(1);
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one == "*" || one == tag) return true;
  }
  return false;
}

HttpHeaders security_headers() {
  return {{"content-security-policy", std::string(kContentSecurityPolicy)},
          {"x-content-type-options", "nosniff"},
          {"referrer-policy", "no-referrer"},
          {"cross-origin-opener-policy", "same-origin"}};
}

HttpResponse sentence(int status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.headers = security_headers();
  response.body = std::move(text);
  return response;
}

HttpResponse file_response(const HttpRequest& request, const PageFile& file) {
  const std::string tag = std::string("\"").append(file.sha256.substr(0, 32)).append("\"");
  HttpResponse response;
  response.content_type = content_type(file.name);
  response.headers = security_headers();
  response.headers.emplace_back("etag", tag);
  // Names carry no version: a browser keeps the files and asks each time whether they are still the same.
  response.headers.emplace_back("cache-control", "no-cache");
  if (names_tag(request.header("if-none-match"), tag)) {
    response.status = 304;
  } else {
    response.body = file.bytes;
  }
  return response;
}

HttpResponse page_response(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse response = sentence(405, "This path is for GET and HEAD requests.\n");
    response.headers.emplace_back("allow", "GET, HEAD");
    return response;
  }
  const std::string_view path = request.path;
  const std::string_view name = path == "/" ? "index.html" : path.substr(kFolder.size());
  for (const PageFile& file : page_files())
    if (file.name == name) return file_response(request, file);
  return sentence(404, "The page has no such file.\n");
}

}  // namespace

bool is_page_path(std::string_view path) {
  return path == "/" || path.starts_with(kFolder);
}

bool answer_page(HttpExchange& exchange) {
  if (!is_page_path(exchange.request().path)) return false;
  exchange.respond(page_response(exchange.request()));
  return true;
}

}  // namespace deepinfer::serving
