// An exchange that keeps what it is answered, and a client that can leave.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "serving/http/http_exchange.h"
#include "text/json_text.h"

namespace deepinfer::serving {

class RecordedExchange final : public HttpExchange {
 public:
  explicit RecordedExchange(HttpRequest request) : request_(std::move(request)) {
    if (request_.id.empty()) request_.id = "req-1";
  }

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  bool write(std::string_view bytes) override;
  void set_heartbeat(std::string bytes) override { heartbeat_ = std::move(bytes); }
  void end_stream() override;
  void abort_stream() override;
  void describe(std::string members) override;
  void on_client_gone(std::function<void()> callback) override;

  // What the client does.
  void leave();
  void stop_reading_after(size_t bytes) { most_bytes_ = bytes; }

  // What the client sees; waits for the end of the answer.
  const HttpResponse& response();
  int status() { return response().status; }
  const std::string& body() { return response().body; }
  Json json() { return parse_json(body()).value(); }
  std::string header(const std::string& name);
  bool streamed();
  bool aborted();
  // Waits until so many bytes of a stream are there.
  void wait_for_bytes(size_t bytes);
  bool answered() const;
  // What the access log would say, as an object.
  Json description();

 private:
  void wait(std::unique_lock<std::mutex>& lock);
  void finish();

  HttpRequest request_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;  // the body of a stream grows
  bool began_ = false, ended_ = false, aborted_ = false, gone_ = false;
  size_t most_bytes_ = SIZE_MAX;
  std::string heartbeat_;
  std::string description_;
  std::function<void()> on_gone_;
};

HttpRequest post(const std::string& path, std::string body);
HttpRequest get(const std::string& path);

}  // namespace deepinfer::serving
