// ServerState: what the threads of one HttpServer share: the options, the handler, counters and the places that
// connections take.  Every function is thread-safe.  Kept alive by whoever may still count: exchanges outlive the
// server.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "serving/http/http_server.h"

namespace deepinfer::serving {

class ServerState {
 public:
  ServerState(HttpServerOptions options, HttpHandler handler);

  const HttpServerOptions options;
  const HttpHandler handler;

  std::atomic<bool> draining{false};
  std::atomic<std::uint64_t> accepted{0}, requests{0}, clients_left{0}, bytes_received{0}, bytes_sent{0}, writes{0};

  void count(HttpRefusal refusal) { ++refusals_[static_cast<std::size_t>(refusal)]; }

  // A place for a connection of this peer, or why there is none.  Each place that was taken is given back.
  std::optional<HttpError> take_place(const std::string& peer_network);
  void give_back_place(const std::string& peer_network);

  // Memory for bodies: false where it would be more than the options allow.
  bool take_body_memory(std::size_t bytes);
  void give_back_body_memory(std::size_t bytes) { body_memory_ -= bytes; }

  void exchange_began();
  void exchange_ended();
  // Until no exchange is left or the time has come.
  void wait_for_exchanges(std::chrono::steady_clock::time_point until);

  std::string next_request_id();
  // A refusal in the envelope that the options choose.
  HttpResponse error_response(const HttpRequest& request, const HttpError& error) const;

  HttpServerStats stats() const;

 private:
  std::array<std::atomic<std::uint64_t>, kHttpRefusals> refusals_{};
  std::atomic<std::size_t> body_memory_{0};
  std::atomic<std::uint64_t> next_id_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable no_exchange_;
  std::size_t connections_ = 0;
  std::map<std::string, std::size_t> by_peer_;
  std::size_t exchanges_ = 0;
};

}  // namespace deepinfer::serving
