// AdminApi: the routes of an operator: what the engine does, and what it shall do.  Made by the program for a listener
// of its own (`deepinfer serve --admin-listen`); the public listener has none of them.
//
//   GET  /admin/state                {"engine", "draining", "requests", "cache_blocks", "steps", ...}
//   POST /admin/flush-prefix-cache   {"tiers": ["device", "host"]}
//   POST /admin/drain                the orderly end, as SIGTERM begins it
//   POST /admin/pause                {"mode": "keep" or "drain"}; returns when the engine rests
//   POST /admin/resume
//   POST /admin/profile              {"steps": 1 to 1000, "timeout_seconds": 1 to 600}; returns the trace
//   GET, PUT /admin/log-level        {"level"}
//   GET  /health/live, /health/ready, /metrics    as on the public listener, without one of its keys
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/metrics/step_profile.h"
#include "serving/api/api_error.h"
#include "serving/api/api_keys.h"
#include "serving/api/work_queue.h"
#include "serving/http/access_log.h"
#include "serving/http/http_exchange.h"
#include "text/json_text.h"

namespace deepinfer::serving {

struct AdminOptions {
  std::unique_ptr<ApiKeys> keys;         // null: everybody who reaches the listener
  std::shared_ptr<StepProfile> profile;  // one of the engine's observers
  AccessLog* log = nullptr;              // null: none is written
  std::function<void()> drain;           // begins the end; must not wait; may be called again
  std::function<bool()> draining;        // has it begun
  std::function<size_t()> running;       // generating requests that are not answered
  std::string version;
  // Answers the routes that watch the server (Api::watch); empty: there are none.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> watch;
};

class AdminApi {
 public:
  // The engine outlives close().
  AdminApi(Engine& engine, AdminOptions options);

  // Whether a request would be refused whatever its body is.
  std::optional<HttpResponse> check_head(const HttpRequest& request) const;
  // Answers an exchange, now or later.  Does not wait.
  void handle(std::shared_ptr<HttpExchange> exchange);

  // Ends what waits for steps.  Where a pause waits for requests, the engine must be closing (Engine::begin_close).
  // Nothing may call handle() any more.
  void close();

 private:
  using Answer = std::variant<HttpResponse, ApiError>;
  struct Route;
  struct Match {
    const Route* route = nullptr;
    std::optional<ApiError> error;
  };
  static Match find_route(const HttpRequest& request);
  // What is wrong with a request, whatever its path is.
  std::optional<ApiError> refusal(const HttpRequest& request) const;

  Answer state(const Json& body);
  Answer flush(const Json& body);
  Answer drain(const Json& body);
  Answer pause(const Json& body);
  Answer resume(const Json& body);
  Answer record_profile(const Json& body);
  Answer log_level_now(const Json& body);
  Answer set_log_level(const Json& body);
  Answer done(std::string_view what);
  void note(std::string_view event, const Json& body);

  Engine& engine_;
  const AdminOptions options_;
  std::atomic<bool> closing_{false};
  std::optional<WorkQueue> workers_;
};

}  // namespace deepinfer::serving
