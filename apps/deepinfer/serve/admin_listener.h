// The listener of operators (`deepinfer serve --admin-listen`): where it is, and its own HttpServer before AdminApi.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "serving/admin/admin_api.h"
#include "serving/http/http_server.h"

namespace deepinfer::cli {

// text: HOST:PORT, [ADDRESS]:PORT or unix:PATH.  kInvalidArgument: another form, and without keys an address that other
// machines reach.
Result<serving::HttpListener> admin_listener(const std::string& text, bool keys);

struct AdminServerOptions {
  serving::HttpListener listener;
  bool keys = false;
  std::string tls_certificate, tls_key;  // of a TCP listener; empty: plain HTTP
  serving::AccessLog* log = nullptr;
};

// admin outlives the server.
Result<std::unique_ptr<serving::HttpServer>> open_admin_server(const AdminServerOptions& options,
                                                               serving::AdminApi& admin);
// "unix:/run/admin.sock" or "http://127.0.0.1:9000", for people.
std::string admin_address(const AdminServerOptions& options, int port);

}  // namespace deepinfer::cli
