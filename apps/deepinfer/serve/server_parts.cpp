#include "serve/server_parts.h"

#include <fmt/format.h>

#include "serve/server_run.h"

namespace deepinfer::cli {
namespace {

serving::HttpListener listener_of(const ServerOptions& options) {
  serving::HttpListener listener;
  listener.host = options.host;
  listener.port = options.port.value_or(kDefaultPort);
  listener.unix_path = options.unix_path.value_or("");
  listener.tls = options.tls_certificate.has_value();
  return listener;
}

// Without keys everybody who reaches the server may use it: only this machine may.
Status check_access(const ServerOptions& options, const serving::HttpListener& listener) {
  if (options.tls_certificate.has_value() != options.tls_key.has_value())
    return invalid_argument("--tls-cert and --tls-key need each other");
  if (options.api_key_file || options.insecure_no_auth) return {};
  DI_ASSIGN_OR_RETURN(const bool local, serving::is_local(listener));
  if (local) return {};
  return invalid_argument(
      fmt::format("--host {} can be reached from other machines; give --api-key-file, or --insecure-no-auth if "
                  "everybody may use the server",
                  options.host));
}

}  // namespace

Status check_options(const ServerOptions& options, ServerParts& parts) {
  parts.listener = listener_of(options);
  DI_RETURN_IF_ERROR(check_access(options, parts.listener));
  if (options.admin_key_file && !options.admin_listen) return invalid_argument("--admin-key-file needs --admin-listen");
  if (!options.admin_listen) return {};
  parts.admin.keys = options.admin_key_file.has_value();
  DI_ASSIGN_OR_RETURN(parts.admin.listener, admin_listener(*options.admin_listen, parts.admin.keys));
  parts.admin.tls_certificate = options.tls_certificate.value_or("");
  parts.admin.tls_key = options.tls_key.value_or("");
  parts.admin.listener.tls = options.tls_certificate.has_value() && parts.admin.listener.unix_path.empty();
  return {};
}

Status open_files(const ServerOptions& options, ServerParts& parts) {
  if (options.api_key_file) {
    DI_ASSIGN_OR_RETURN(parts.keys, serving::ApiKeys::read(*options.api_key_file));
  }
  if (options.admin_key_file) {
    DI_ASSIGN_OR_RETURN(parts.admin_keys, serving::ApiKeys::read(*options.admin_key_file));
  }
  if (options.access_log) {
    DI_ASSIGN_OR_RETURN(parts.log, serving::AccessLog::open(*options.access_log));
    parts.log->set_level(options.log_level);
    parts.admin.log = parts.log.get();
  }
  return {};
}

}  // namespace deepinfer::cli
