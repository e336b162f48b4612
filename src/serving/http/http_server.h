// HttpServer: listeners, connections and their threads.  Owned by the program; hands each request to one HttpHandler
// (http_exchange.h) and knows no routes.  HTTP/1.1 and HTTP/1.0 over TCP, TLS and Unix sockets.  docs/server.md,
// "Transport", describes limits and costs.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/http/http_exchange.h"
#include "serving/http/http_refusal.h"

namespace deepinfer::serving {

struct HttpListener {
  std::string host = "127.0.0.1";  // an address, or "localhost" for 127.0.0.1
  int port = 0;                    // 0: any that is free, see HttpServer::ports()
  std::string unix_path = {};      // not empty: a Unix socket there, for this user only, and host and port mean nothing
  bool tls = false;
};

// Whether only processes of this machine can reach the listener.  kInvalidArgument for a host that is no address.
Result<bool> is_local(const HttpListener& listener);

// One request and how it ended, for logs.
struct HttpAccess {
  enum class End { kWhole, kClientLeft, kCut, kAborted };
  const HttpRequest* request = nullptr;  // a malformed one has an empty method and path
  int status = 0;                        // 0: nothing was answered
  End end = End::kWhole;                 // kCut: by the server, for a slow reader or at its end; kAborted: by the route
  std::uint64_t bytes = 0;               // of the answer, head included, handed to the system
  std::chrono::microseconds time{0};     // from the whole request to the whole answer
  std::string description = {};          // HttpExchange::describe()
};

struct HttpServerOptions {
  std::vector<HttpListener> listeners;
  std::string tls_certificate_file;  // PEM, the whole chain; for the listeners with tls
  std::string tls_key_file;          // PEM
  int io_threads = 0;                // 0: two

  std::size_t max_header_bytes = 32 << 10;  // request line and fields; also the bytes kept of a next request meanwhile
  std::size_t max_header_fields = 100;
  std::size_t max_body_bytes = std::size_t{32} << 20;  // of one request
  std::size_t max_body_memory = std::size_t{1} << 30;  // of all requests that are read or answered
  std::size_t max_connections = 8192;
  std::size_t max_connections_per_peer = 4096;          // an IPv6 peer is its /64 network
  std::size_t max_queued_bytes = std::size_t{1} << 20;  // of a stream, for one client that does not read
  int send_buffer_bytes = 0;                            // of the system, for each connection; 0: its own choice

  std::chrono::milliseconds header_timeout{10'000};  // from the connection or the first byte to the end of the head
  std::chrono::milliseconds body_timeout{120'000};   // from there to the end of the body
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests
  std::chrono::milliseconds write_timeout{60'000};   // without a byte taken by a client that has bytes waiting
  std::chrono::milliseconds linger_timeout{2'000};   // for the client to close, where the server closes
  std::chrono::milliseconds heartbeat{15'000};       // see HttpExchange::set_heartbeat

  std::vector<std::string> cors_origins;   // pages of these origins may read answers; "*": all; empty: none
  std::vector<std::string> allowed_hosts;  // names in the host field, lower case, without port; empty: all
  std::vector<std::string> drain_paths;    // still handed to the handler while the server drains, such as /health/live
  int retry_after_seconds = 2;             // told with 503 and 429

  // Called with all but the body, before the body is read, on a thread of the server; must not wait.  An answer is sent
  // instead of calling the handler.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> check_head;
  // The body of the server's own refusals; unset: the envelope of the OpenAI API.
  std::function<HttpResponse(const HttpRequest&, int status, const std::string& message)> error_response;
  // Called on a thread of the server when a request has ended; must not wait.
  std::function<void(const HttpAccess&)> on_access;
};

struct HttpServerStats {
  std::uint64_t connections = 0;   // open now
  std::uint64_t accepted = 0;      // since the start, as are all below
  std::uint64_t requests = 0;      // read and handed to the handler
  std::uint64_t exchanges = 0;     // not fully answered, now
  std::uint64_t body_memory = 0;   // bytes, now
  std::uint64_t clients_left = 0;  // before they had the whole answer
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t writes = 0;                             // calls of the system that sent something
  std::array<std::uint64_t, kHttpRefusals> refusals{};  // by HttpRefusal
};

class HttpServer {
 public:
  // Binds every listener and starts.  kInvalidArgument names a bad option, kIoError a listener that cannot be bound,
  // kNotFound and kCorruptFile a certificate or key.
  static Result<std::unique_ptr<HttpServer>> open(HttpServerOptions options, HttpHandler handler);
  // As close(0).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The TCP port of each listener; 0 for a Unix socket.
  std::vector<int> ports() const;

  // From now on requests are answered 503 with retry-after, new connections too, and idle ones are closed; requests
  // that the handler has go on.  Listeners stay open until close(), so that clients learn why.
  void begin_drain();
  // begin_drain(), waits until every request is answered, no longer than `grace`, then cuts the others, closes the
  // listeners and ends the threads.  The number of requests cut.  Exchanges may be used after it: nobody reads.
  // Not to be called from a handler.
  std::size_t close(std::chrono::milliseconds grace);

  HttpServerStats stats() const;

 private:
  class Threads;
  explicit HttpServer(std::unique_ptr<Threads> threads);
  std::unique_ptr<Threads> threads_;
};

}  // namespace deepinfer::serving
