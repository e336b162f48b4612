#include "serve/server_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "serve/service_notification.h"
#include "serving/admin/admin_api.h"
#include "serving/api/api.h"
#include "serving/api/transport_metrics.h"
#include "serving/http/access_log.h"
#include "serving/http/http_server.h"
#include "serving/page/page_routes.h"
#include "terminal.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Requests that were ended get their last events out within this time.
constexpr std::chrono::milliseconds kEndingTime{2000};
constexpr std::chrono::milliseconds kSignalPoll{50};
// An engine that fails, or an operator who ends the server, is noticed within this time.
constexpr std::chrono::milliseconds kEndPoll{100};

std::string requests(size_t count) {
  return count == 1 ? "1 request" : fmt::format("{} requests", count);
}

std::string display_host(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

void greet(const ServerOptions& options, const LoadedEngine& loaded, const std::vector<std::string>& models, int port) {
  const char* scheme = options.tls_certificate ? "https" : "http";
  const std::string url =
      options.unix_path ? "http://localhost" : fmt::format("{}://{}:{}", scheme, display_host(options.host), port);
  const std::string where = options.unix_path ? "--unix-socket " + *options.unix_path + " " : "";
  const std::string key = options.api_key_file ? " -H \"Authorization: Bearer $KEY\"" : "";
  if (!options.given.empty()) write_standard_error("deepinfer: options\n" + options.given);
  write_standard_error(fmt::format(
      "deepinfer: {} on {} ({}, {} tokens, {} profile{})\n"
      "  curl {}{}/v1/chat/completions{} -H 'Content-Type: application/json' \\\n"
      "    -d '{{\"model\": \"{}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello! Who are you?\"}}]}}'\n",
      loaded.name, options.unix_path ? *options.unix_path : url, loaded.engine->backend_name(),
      loaded.engine->max_context(), options.protocol.profile == Profile::kDeepSeek ? "deepseek" : "extended",
      options.api_key_file ? ", with keys" : "", where, url, key, models.front()));
}

serving::ApiOptions api_options(const ServerOptions& options, const LoadedEngine& loaded) {
  serving::ApiOptions api;
  serving::RequestContext& requests = api.requests;
  requests.tokenizer = loaded.tokenizer.get();
  requests.engine = loaded.engine.get();
  requests.end_tokens = loaded.defaults.end_tokens;
  options.protocol.apply(loaded.name, requests.protocol);
  requests.draft_tokens = options.engine.draft_tokens.value_or(-1);
  requests.fingerprint = "deepinfer-" + commit_id();
  requests.draft_usage = options.protocol.profile == Profile::kExtended;
  api.version = program_version();
  api.engine_metrics = loaded.metrics;
  return api;
}

struct Drained {
  size_t unanswered = 0;             // requests that were ended
  std::optional<int> second_signal;  // came meanwhile
};

// Waits for the requests that run, then ends those that are left.
Drained drain(serving::Api& api, const TerminationSignals& signals, std::chrono::seconds time) {
  const Clock::time_point deadline = Clock::now() + time;
  Drained drained;
  while (!api.wait_until_idle(std::min(deadline, Clock::now() + kSignalPoll))) {
    drained.second_signal = signals.take(std::chrono::milliseconds(0));
    if (drained.second_signal) return drained;
    if (Clock::now() >= deadline) break;
  }
  drained.unanswered = api.running();
  api.end_running();
  api.wait_until_idle(Clock::now() + kEndingTime);
  return drained;
}

serving::HttpServerOptions http_options(const ServerOptions& options, const serving::HttpListener& listener,
                                        const serving::Api& api, serving::AccessLog* log) {
  serving::HttpServerOptions http;
  http.listeners = {listener};
  http.tls_certificate_file = options.tls_certificate.value_or("");
  http.tls_key_file = options.tls_key.value_or("");
  http.drain_paths = {"/health/live", "/health/ready", "/metrics"};
  http.check_head = [&api](const serving::HttpRequest& request) -> std::optional<serving::HttpResponse> {
    if (serving::is_page_path(request.path)) return std::nullopt;  // needs no key
    return api.check_head(request);
  };
  http.cors_origins = options.cors_origins;
  http.error_response = serving::Api::transport_error;
  if (log != nullptr) http.on_access = [log](const serving::HttpAccess& access) { log->record(access); };
  // A page of another name that points to this machine's address may not use a server without keys.
  if (!options.api_key_file && !options.insecure_no_auth && !options.unix_path)
    http.allowed_hosts = {"localhost", "127.0.0.1", "::1", "[::1]", options.host};
  return http;
}

// Until the server shall end.  True: because its engine has failed.
bool wait_for_the_end(const Engine& engine, const TerminationSignals& signals, const std::atomic<bool>& ordered) {
  while (!ordered && !signals.take(kEndPoll))
    if (engine.stats().state == EngineState::kFailed) return true;
  return false;
}

}  // namespace

ExitCode run_server(const ServerOptions& options) {
  ServerParts parts;
  if (const Status status = check_options(options, parts); !status.ok()) return report_usage_error(status.message());
  // Before the first thread, the log's: a signal ends the process where any thread does not hold it back.
  const TerminationSignals signals;
  if (const Status status = open_files(options, parts); !status.ok()) return report_error(status);
  Result<LoadedEngine> loaded = open_engine(options.engine);
  if (!loaded.ok()) return report_error(loaded.status());
  return serve(options, std::move(parts), std::move(*loaded), signals);
}

ExitCode serve(const ServerOptions& options, ServerParts parts, LoadedEngine loaded,
               const TerminationSignals& signals) {
  const auto note = [&parts](serving::LogLevel level, std::string_view event) {
    if (parts.log) parts.log->event(level, event);
  };
  serving::ApiOptions settings = api_options(options, loaded);
  const std::vector<std::string> models = settings.requests.protocol.models;
  auto stored =
      open_stored_files(options.files, *loaded.engine, settings.requests, options.engine.sequences(), parts.keys.get());
  if (!stored.ok()) return report_error(stored.status());
  settings.files = std::move(stored->files);
  settings.batches = std::move(stored->batches);
  settings.cors_origins = options.cors_origins;
  settings.keys = std::move(parts.keys);
  std::atomic<const serving::HttpServer*> counted{nullptr};  // requests may come before open() is back
  settings.transport_metrics = [&counted] {
    const serving::HttpServer* server = counted.load();
    return server == nullptr ? std::string() : serving::transport_metrics_text(server->stats());
  };
  serving::Api api(*loaded.engine, std::move(settings));
  std::atomic<bool> end_ordered{false};
  std::optional<serving::AdminApi> admin;
  std::unique_ptr<serving::HttpServer> admin_server;
  if (options.admin_listen) {
    serving::AdminOptions admin_options;
    admin_options.keys = std::move(parts.admin_keys);
    admin_options.profile = loaded.profile;
    admin_options.log = parts.log.get();
    admin_options.drain = [&end_ordered] { end_ordered = true; };
    admin_options.draining = [&api, &end_ordered] { return end_ordered || api.draining(); };
    admin_options.running = [&api] { return api.running(); };
    admin_options.version = program_version();
    admin_options.watch = [&api](const serving::HttpRequest& request) { return api.watch(request); };
    admin.emplace(*loaded.engine, std::move(admin_options));
    auto opened = open_admin_server(parts.admin, *admin);
    if (!opened.ok()) return report_error(opened.status());
    admin_server = std::move(*opened);
  }
  auto server = serving::HttpServer::open(http_options(options, parts.listener, api, parts.log.get()),
                                          [&](std::shared_ptr<serving::HttpExchange> exchange) {
                                            if (!serving::answer_page(*exchange)) api.handle(std::move(exchange));
                                          });
  if (!server.ok()) return report_error(server.status());
  counted = server->get();
  greet(options, loaded, models, (*server)->ports().front());
  if (admin_server)
    write_standard_error("deepinfer: operators at " + admin_address(parts.admin, admin_server->ports().front()) + "\n");
  note(serving::LogLevel::kInfo, "started");
  notify_service("READY=1");

  const bool failed = wait_for_the_end(*loaded.engine, signals, end_ordered);
  notify_service("STOPPING=1");
  note(failed ? serving::LogLevel::kError : serving::LogLevel::kInfo, failed ? "engine failed" : "draining");
  if (failed) report_error(loaded.engine->stats().failure);
  const std::chrono::seconds drain_time(options.drain_seconds.value_or(kDefaultDrainSeconds));
  if (const size_t running = api.running(); running > 0 && !failed)
    write_standard_error(fmt::format("deepinfer: waiting up to {} s for {}; once more ends at once\n",
                                     drain_time.count(), requests(running)));
  api.begin_drain();
  (*server)->begin_drain();
  const Drained drained = drain(api, signals, drain_time);
  if (drained.second_signal) _exit(128 + *drained.second_signal);
  const size_t cut = (*server)->close(kEndingTime);
  api.close();
  loaded.engine->begin_close();  // ends a pause that an operator waits for
  if (admin_server) admin_server->close(kEndingTime);
  if (admin) admin->close();
  const Status closed = loaded.close();
  note(serving::LogLevel::kInfo, "ended");
  if (failed) return ExitCode::kEngineFailed;
  if (!closed.ok()) return report_error(closed);
  if (drained.unanswered + cut == 0) return ExitCode::kOk;
  write_standard_error(fmt::format("deepinfer: {} not answered\n", requests(std::max(drained.unanswered, cut))));
  return ExitCode::kUnanswered;
}

}  // namespace deepinfer::cli
