// A server for tests and a handler whose answers the test gives itself: paths below /held wait for it, all others are
// answered with what was asked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "serving/http/http_server.h"

namespace deepinfer::serving::testing {

class HeldExchanges {
 public:
  HttpHandler handler() {
    return [this](std::shared_ptr<HttpExchange> exchange) {
      const HttpRequest& request = exchange->request();
      if (request.path.starts_with("/held")) {
        const std::lock_guard lock(mutex_);
        held_.push_back(std::move(exchange));
        arrived_.notify_all();
        return;
      }
      HttpResponse response;
      response.content_type = "text/plain";
      response.body = request.method + " " + request.path + " " + request.query + " " + request.body;
      exchange->respond(std::move(response));
    };
  }

  // The next one that came; null when none comes for some seconds.
  std::shared_ptr<HttpExchange> next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return !held_.empty(); })) return nullptr;
    auto exchange = std::move(held_.front());
    held_.pop_front();
    return exchange;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::shared_ptr<HttpExchange>> held_;
};

inline std::unique_ptr<HttpServer> open_server(HttpServerOptions options, HttpHandler handler) {
  if (options.listeners.empty()) options.listeners.emplace_back();
  auto server = HttpServer::open(std::move(options), std::move(handler));
  DI_CHECK(server.ok(), server.status().to_string());
  return std::move(*server);
}

// Whether `condition` becomes true within some seconds.
inline bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline HttpResponse event_stream() {
  HttpResponse head;
  head.content_type = "text/event-stream";
  return head;
}

inline std::uint64_t refusals(const HttpServer& server, HttpRefusal refusal) {
  return server.stats().refusals[static_cast<std::size_t>(refusal)];
}

}  // namespace deepinfer::serving::testing
