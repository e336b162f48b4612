// Api: the routes of the server.  Made by the program, called by HttpServer; owns what the routes share.
//
//   exchange ─► authentication, table of routes ─► worker: body ─► EngineRequest ─► Engine
//   exchange ◄─ events or object ◄─ RequestAnswer ◄─ tokens, on the engine's output thread
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/metrics/engine_metrics.h"
#include "serving/api/api_error.h"
#include "serving/api/api_keys.h"
#include "serving/api/api_metrics.h"
#include "serving/api/file_routes.h"
#include "serving/api/running_requests.h"
#include "serving/api/served_request.h"
#include "serving/api/text_routes.h"
#include "serving/api/work_queue.h"
#include "serving/http/http_exchange.h"
#include "serving/requests/id_source.h"
#include "serving/requests/prepared_request.h"

namespace deepinfer::serving {

struct ApiOptions {
  RequestContext requests;                         // names of models: requests.protocol.models, the first in metrics
  std::string version;                             // of /version
  int workers = 2;                                 // threads that read bodies and tokenise
  size_t most_waiting = 1024;                      // bodies that wait for them
  size_t most_running = 4096;                      // generating requests that are not answered
  std::shared_ptr<EngineMetrics> engine_metrics;   // of /metrics; may be null
  std::function<std::string()> transport_metrics;  // text for /metrics of whoever moves the bytes; may be empty
  std::unique_ptr<ApiKeys> keys;                   // null: everybody may do everything
  std::vector<std::string> cors_origins;           // whose pages may use a server without keys; "*": all
  std::unique_ptr<FileStore> files;                // of /v1/files; null: no such paths
  std::unique_ptr<BatchService> batches;           // of /v1/batches; with `files`
};

class Api {
 public:
  // Goes after close() and after the engine, whose last updates it still takes.
  Api(Engine& engine, ApiOptions options);

  // Whether a request would be refused whatever its body is.  Before the body is read; does not wait.
  std::optional<HttpResponse> check_head(const HttpRequest& request) const;
  // Answers an exchange, now or later.  Does not wait.
  void handle(std::shared_ptr<HttpExchange> exchange);
  // The answer of a route that watches the server (/health/live, /health/ready, /metrics), whoever asks; nothing for
  // others.
  std::optional<HttpResponse> watch(const HttpRequest& request) const;
  // The body of a refusal that the transport makes itself.
  static HttpResponse transport_error(const HttpRequest& request, int status, const std::string& message);

  // New generating requests are refused from now on, and /health/ready says so.  Batches stop, and go on when the
  // server is started again.
  void begin_drain();
  bool draining() const { return running_.closed(); }
  // Whether every generating request was answered by then.
  bool wait_until_idle(std::chrono::steady_clock::time_point deadline);
  size_t running() const { return running_.count(); }
  // Ends those that run, with an error event where the stream has begun.
  void end_running();
  // No request reaches the engine from now on.  Nothing may call handle() any more.
  void close();

  const ApiMetrics& metrics() const { return metrics_; }

 private:
  struct Route;
  struct Match {
    const Route* route = nullptr;
    std::optional<ApiError> error;  // no such path, or not with this method
  };
  Match find_route(const HttpRequest& request) const;
  // What is wrong with the head of a request to a route.
  std::optional<ApiError> check_route(const HttpRequest& request, const Route& route) const;
  // An error, or the account of the request's key (null without keys).
  std::optional<ApiError> authenticate(const HttpRequest& request, const Route* route, KeyAccount*& account) const;

  void generate(std::shared_ptr<HttpExchange> exchange, const Route& route, KeyAccount* account);
  void work(std::shared_ptr<HttpExchange> exchange, const Route& route, KeyAccount* account);
  AnswerOrError answer_work(const Route& route, const HttpRequest& request, const KeyAccount* account);
  AnswerOrError answer_now(const Route& route, const HttpRequest& request) const;
  void refuse(HttpExchange& exchange, const Route* route, const ApiError& error, const KeyAccount* account = nullptr);
  std::string metrics_text() const;

  Engine& engine_;
  ApiOptions options_;
  int64_t started_;  // seconds since 1970
  IdSource ids_;
  mutable ApiMetrics metrics_;
  RunningRequests running_;
  std::optional<WorkQueue> workers_;
};

}  // namespace deepinfer::serving
