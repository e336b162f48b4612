#include "serving/http/server_state.h"

#include <cstdio>
#include <random>
#include <utility>

#include "text/protocol/request_error.h"

namespace deepinfer::serving {
namespace {

// A bijection of 64-bit numbers (the finaliser of splitmix64): ids are unique and do not tell how many came before.
std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t random_start() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

ServerState::ServerState(HttpServerOptions server_options, HttpHandler server_handler)
    : options(std::move(server_options)), handler(std::move(server_handler)), next_id_(random_start()) {}

std::optional<HttpError> ServerState::take_place(const std::string& peer_network) {
  const std::lock_guard lock(mutex_);
  if (connections_ >= options.max_connections)
    return HttpError{503, "the server has as many connections as it allows", HttpRefusal::kTooManyConnections};
  std::size_t& count = by_peer_[peer_network];
  if (count >= options.max_connections_per_peer)
    return HttpError{429, "this address has as many connections as the server allows", HttpRefusal::kTooManyFromPeer};
  ++count;
  ++connections_;
  return std::nullopt;
}

void ServerState::give_back_place(const std::string& peer_network) {
  const std::lock_guard lock(mutex_);
  --connections_;
  const auto peer = by_peer_.find(peer_network);
  if (--peer->second == 0) by_peer_.erase(peer);
}

bool ServerState::take_body_memory(std::size_t bytes) {
  if ((body_memory_ += bytes) <= options.max_body_memory) return true;
  body_memory_ -= bytes;
  return false;
}

void ServerState::exchange_began() {
  const std::lock_guard lock(mutex_);
  ++exchanges_;
}

void ServerState::exchange_ended() {
  const std::lock_guard lock(mutex_);
  if (--exchanges_ == 0) no_exchange_.notify_all();
}

void ServerState::wait_for_exchanges(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  no_exchange_.wait_until(lock, until, [&] { return exchanges_ == 0; });
}

std::string ServerState::next_request_id() {
  char text[24];
  std::snprintf(text, sizeof text, "req_%016llx", static_cast<unsigned long long>(scrambled(next_id_++)));
  return text;
}

HttpResponse ServerState::error_response(const HttpRequest& request, const HttpError& error) const {
  HttpResponse response;
  if (options.error_response) {
    response = options.error_response(request, error.status, error.message);
  } else {
    response.body = RequestError{RequestError::Kind::kRequest, error.message, error.status}.body();
  }
  response.status = error.status;
  if (error.status == 503 || error.status == 429)
    response.headers.emplace_back("retry-after", std::to_string(options.retry_after_seconds));
  return response;
}

HttpServerStats ServerState::stats() const {
  HttpServerStats now;
  now.accepted = accepted;
  now.requests = requests;
  now.body_memory = body_memory_;
  now.clients_left = clients_left;
  now.bytes_received = bytes_received;
  now.bytes_sent = bytes_sent;
  now.writes = writes;
  for (std::size_t i = 0; i < kHttpRefusals; ++i) now.refusals[i] = refusals_[i];
  const std::lock_guard lock(mutex_);
  now.connections = connections_;
  now.exchanges = exchanges_;
  return now;
}

}  // namespace deepinfer::serving
