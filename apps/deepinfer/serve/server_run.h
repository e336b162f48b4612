// One run of the server: from the loaded engine to the exit code.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine_options.h"
#include "exit_code.h"
#include "protocol_options.h"
#include "serve/server_parts.h"
#include "serve/stored_files.h"
#include "serve/termination_signals.h"
#include "serving/http/access_log.h"

namespace deepinfer::cli {

struct ServerOptions {
  EngineCommandOptions engine;
  std::string host = "127.0.0.1";
  std::optional<int32_t> port;           // default: kDefaultPort; 0: any that is free
  std::optional<std::string> unix_path;  // a Unix socket instead of host and port
  std::optional<std::string> tls_certificate, tls_key;
  std::optional<std::string> api_key_file;
  bool insecure_no_auth = false;
  ProtocolCommandOptions protocol;
  FileCommandOptions files;
  std::vector<std::string> cors_origins;  // whose pages may use the server
  std::optional<int32_t> drain_seconds;
  std::optional<std::string> access_log;  // a file, or "-"
  serving::LogLevel log_level = serving::LogLevel::kInfo;
  std::optional<std::string> admin_listen;    // HOST:PORT or unix:PATH
  std::optional<std::string> admin_key_file;  // of those who may use it
  std::string given;                          // the options that were given, as TOML: printed at the start
};

inline constexpr int32_t kDefaultPort = 8000;
inline constexpr int32_t kDefaultDrainSeconds = 30;

// Serves until SIGTERM or SIGINT, or until an operator says so.  kOk: every request was answered; kUnanswered: some had
// to be ended; kEngineFailed: the engine has, and what it had not answered ended with an error.
ExitCode run_server(const ServerOptions& options);
// The same on an engine that is open.
ExitCode serve(const ServerOptions& options, ServerParts parts, LoadedEngine loaded, const TerminationSignals& signals);

}  // namespace deepinfer::cli
