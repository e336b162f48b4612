#include "serve/server_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "serve/termination_signals.h"
#include "serving/api/api.h"
#include "serving/http/access_log.h"
#include "serving/http/http_server.h"
#include "serving/http/transport_metrics.h"
#include "serving/page/page_routes.h"
#include "terminal.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Requests that were ended get their last events out within this time.
constexpr std::chrono::milliseconds kEndingTime{2000};
constexpr std::chrono::milliseconds kSignalPoll{50};

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
  api.version = program_version();
  api.engine_metrics = loaded.metrics;
  return api;
}

// Waits for the requests that run.  The second signal, if it comes.
std::optional<int> drain(serving::Api& api, const TerminationSignals& signals, std::chrono::seconds time) {
  const Clock::time_point deadline = Clock::now() + time;
  while (!api.wait_until_idle(std::min(deadline, Clock::now() + kSignalPoll))) {
    if (const auto signal = signals.take(std::chrono::milliseconds(0))) return signal;
    if (Clock::now() >= deadline) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

ExitCode run_server(const ServerOptions& options) {
  const serving::HttpListener listener = listener_of(options);
  if (const Status status = check_access(options, listener); !status.ok()) return report_usage_error(status.message());
  std::unique_ptr<serving::ApiKeys> keys;
  if (options.api_key_file) {
    auto read = serving::ApiKeys::read(*options.api_key_file);
    if (!read.ok()) return report_error(read.status());
    keys = std::move(read).value();
  }
  std::unique_ptr<serving::AccessLog> access_log;
  if (options.access_log) {
    auto log = serving::AccessLog::open(*options.access_log);
    if (!log.ok()) return report_error(log.status());
    access_log = std::move(log).value();
  }
  const TerminationSignals signals;
  Result<LoadedEngine> loaded = open_engine(options.engine);
  if (!loaded.ok()) return report_error(loaded.status());
  serving::ApiOptions settings = api_options(options, *loaded);
  const std::vector<std::string> models = settings.requests.protocol.models;
  settings.keys = std::move(keys);
  std::atomic<const serving::HttpServer*> counted{nullptr};  // requests may come before open() is back
  settings.transport_metrics = [&counted] {
    const serving::HttpServer* server = counted.load();
    return server == nullptr ? std::string() : serving::transport_metrics_text(server->stats());
  };
  serving::Api api(*loaded->engine, std::move(settings));

  serving::HttpServerOptions http;
  http.listeners = {listener};
  http.tls_certificate_file = options.tls_certificate.value_or("");
  http.tls_key_file = options.tls_key.value_or("");
  http.drain_paths = {"/health/live", "/health/ready", "/metrics"};
  http.check_head = [&api](const serving::HttpRequest& request) -> std::optional<serving::HttpResponse> {
    if (serving::is_page_path(request.path)) return std::nullopt;  // needs no key
    return api.check_head(request);
  };
  http.error_response = serving::Api::transport_error;
  if (access_log) http.on_access = [&](const serving::HttpAccess& access) { access_log->record(access); };
  // A page of another name that points to this machine's address may not use a server without keys.
  if (!options.api_key_file && !options.insecure_no_auth && !options.unix_path)
    http.allowed_hosts = {"localhost", "127.0.0.1", "::1", "[::1]", options.host};
  auto server = serving::HttpServer::open(std::move(http), [&](std::shared_ptr<serving::HttpExchange> exchange) {
    if (!serving::answer_page(*exchange)) api.handle(std::move(exchange));
  });
  if (!server.ok()) return report_error(server.status());
  counted = server->get();
  greet(options, *loaded, models, (*server)->ports().front());

  std::optional<int> signal;
  while (!signal) signal = signals.take(std::chrono::hours(1));
  const int drain_seconds = options.drain_seconds.value_or(kDefaultDrainSeconds);
  if (const size_t running = api.running(); running > 0)
    write_standard_error(fmt::format("deepinfer: waiting up to {} s for {}; once more ends at once\n", drain_seconds,
                                     requests(running)));
  api.begin_drain();
  (*server)->begin_drain();
  if (const auto second = drain(api, signals, std::chrono::seconds(drain_seconds))) _exit(128 + *second);
  const size_t unanswered = api.running();
  api.end_running();
  api.wait_until_idle(Clock::now() + kEndingTime);
  const size_t cut = (*server)->close(kEndingTime);
  api.close();
  const Status closed = loaded->close();
  if (!closed.ok()) return report_error(closed);
  if (unanswered + cut == 0) return ExitCode::kOk;
  write_standard_error(fmt::format("deepinfer: {} not answered\n", requests(std::max(unanswered, cut))));
  return ExitCode::kUnanswered;
}

}  // namespace deepinfer::cli
