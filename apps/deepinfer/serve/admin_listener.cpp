#include "serve/admin_listener.h"

#include <fmt/format.h>

#include <utility>

#include "number_text.h"
#include "serving/api/api.h"

namespace deepinfer::cli {

Result<serving::HttpListener> admin_listener(const std::string& text, bool keys) {
  constexpr std::string_view kUnix = "unix:";
  serving::HttpListener listener;
  if (text.starts_with(kUnix)) {
    listener.unix_path = text.substr(kUnix.size());
    if (listener.unix_path.empty()) return invalid_argument("--admin-listen unix: names no path");
    return listener;
  }
  const size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos
                        ? Result<int32_t>(invalid_argument("no port"))
                        : parse_number<int32_t>(text.substr(colon + 1), {.lowest = 0, .highest = 65535});
  if (!port.ok() || colon == 0)
    return invalid_argument(fmt::format("--admin-listen is `{}`; allowed: HOST:PORT or unix:PATH", text));
  listener.host = text.substr(0, colon);
  if (listener.host.starts_with('[') && listener.host.ends_with(']'))
    listener.host = listener.host.substr(1, listener.host.size() - 2);
  listener.port = *port;
  DI_ASSIGN_OR_RETURN(const bool local, serving::is_local(listener));
  if (!local && !keys)
    return invalid_argument(
        fmt::format("--admin-listen {} can be reached from other machines; allowed with --admin-key-file", text));
  return listener;
}

Result<std::unique_ptr<serving::HttpServer>> open_admin_server(const AdminServerOptions& options,
                                                               serving::AdminApi& admin) {
  serving::HttpServerOptions http;
  http.listeners = {options.listener};
  http.tls_certificate_file = options.tls_certificate;
  http.tls_key_file = options.tls_key;
  http.io_threads = 1;
  http.max_header_bytes = 8 << 10;
  http.max_body_bytes = 64 << 10;
  http.max_connections = 64;
  http.max_connections_per_peer = 64;
  http.check_head = [&admin](const serving::HttpRequest& request) { return admin.check_head(request); };
  http.error_response = serving::Api::transport_error;
  if (options.log != nullptr)
    http.on_access = [log = options.log](const serving::HttpAccess& access) { log->record(access); };
  if (options.listener.unix_path.empty() && !options.keys)
    http.allowed_hosts = {"localhost", "127.0.0.1", "::1", "[::1]", options.listener.host};
  return serving::HttpServer::open(std::move(http), [&admin](std::shared_ptr<serving::HttpExchange> exchange) {
    admin.handle(std::move(exchange));
  });
}

std::string admin_address(const AdminServerOptions& options, int port) {
  const serving::HttpListener& listener = options.listener;
  if (!listener.unix_path.empty()) return "unix:" + listener.unix_path;
  const bool bare = listener.host.find(':') == std::string::npos;
  return fmt::format("{}://{}:{}", listener.tls ? "https" : "http", bare ? listener.host : "[" + listener.host + "]",
                     port);
}

}  // namespace deepinfer::cli
