// ServerParts: what the options of `deepinfer serve` name besides the engine: listeners, keys, the log.  Checked and
// opened before a model is loaded.
#pragma once

#include <memory>

#include "base/status.h"
#include "serve/admin_listener.h"
#include "serving/api/api_keys.h"
#include "serving/http/access_log.h"
#include "serving/http/http_server.h"

namespace deepinfer::cli {

struct ServerOptions;

struct ServerParts {
  serving::HttpListener listener;
  AdminServerOptions admin;
  std::unique_ptr<serving::ApiKeys> keys, admin_keys;  // null: none are needed
  std::unique_ptr<serving::AccessLog> log;             // null: none is written
};

// kInvalidArgument: options that do not fit together, or that would let anybody in.
Status check_options(const ServerOptions& options, ServerParts& parts);
// Then: errors of the files.
Status open_files(const ServerOptions& options, ServerParts& parts);

}  // namespace deepinfer::cli
