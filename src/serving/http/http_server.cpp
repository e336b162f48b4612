#include "serving/http/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

#include "serving/http/io_thread.h"
#include "serving/http/listening_socket.h"
#include "serving/http/server_state.h"
#include "serving/http/tls_context.h"

namespace deepinfer::serving {
namespace {

namespace net = boost::asio;

constexpr int kDefaultThreads = 2;
constexpr int kMaxThreads = 64;
constexpr rlim_t kOtherDescriptors = 256;  // files of the model, pipes, ...

Status check(const HttpServerOptions& options) {
  if (options.listeners.empty()) return invalid_argument("listeners: at least one is needed");
  if (options.io_threads < 0 || options.io_threads > kMaxThreads) {
    return invalid_argument("io_threads: " + std::to_string(options.io_threads) + " is not in [0, " +
                            std::to_string(kMaxThreads) + "]");
  }
  const auto at_least = [](const char* name, std::size_t value, std::size_t least) -> Status {
    if (value >= least) return {};
    return invalid_argument(std::string(name) + ": " + std::to_string(value) + " is less than " +
                            std::to_string(least));
  };
  DI_RETURN_IF_ERROR(at_least("max_header_bytes", options.max_header_bytes, 256));
  DI_RETURN_IF_ERROR(at_least("max_header_fields", options.max_header_fields, 1));
  DI_RETURN_IF_ERROR(at_least("max_connections", options.max_connections, 1));
  DI_RETURN_IF_ERROR(at_least("max_connections_per_peer", options.max_connections_per_peer, 1));
  if (options.max_header_bytes > (std::size_t{1} << 20)) return invalid_argument("max_header_bytes: more than 1 MiB");
  const std::pair<const char*, std::chrono::milliseconds> times[] = {
      {"header_timeout", options.header_timeout}, {"body_timeout", options.body_timeout},
      {"idle_timeout", options.idle_timeout},     {"write_timeout", options.write_timeout},
      {"linger_timeout", options.linger_timeout}, {"heartbeat", options.heartbeat}};
  for (const auto& [name, value] : times) {
    if (value <= std::chrono::milliseconds(0)) return invalid_argument(std::string(name) + ": must be more than 0 ms");
  }
  return {};
}

// Each connection is a descriptor; the usual soft limit of 1024 is for programs that call select().
void raise_descriptor_limit(std::size_t connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, connections + kOtherDescriptors);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

class HttpServer::Threads {
 public:
  Threads(HttpServerOptions options, HttpHandler handler)
      : state_(std::make_shared<ServerState>(std::move(options), std::move(handler))) {
    const int threads = state_->options.io_threads > 0 ? state_->options.io_threads : kDefaultThreads;
    for (int i = 0; i < threads; ++i) threads_.push_back(std::make_unique<IoThread>(state_));
  }

  Status listen() {
    const HttpServerOptions& options = state_->options;
    if (std::any_of(options.listeners.begin(), options.listeners.end(), [](const auto& l) { return l.tls; })) {
      DI_ASSIGN_OR_RETURN(tls_, make_tls_context(options.tls_certificate_file, options.tls_key_file));
    }
    for (std::size_t i = 0; i < options.listeners.size(); ++i) {
      DI_ASSIGN_OR_RETURN(auto socket, ListeningSocket::bind(threads_[0]->context(), options.listeners[i], i));
      ports_.push_back(socket->port());
      sockets_.push_back(std::move(socket));
    }
    return {};
  }

  void start() {
    raise_descriptor_limit(state_->options.max_connections);
    for (const auto& socket : sockets_) {
      socket->accept(
          *state_, [this]() -> IoThread& { return *threads_[next_++ % threads_.size()]; },
          [this, tls = socket->tls()](IoThread& thread, Socket connected, Peer peer) {
            take(thread, std::move(connected), std::move(peer), tls);
          });
    }
    for (const auto& thread : threads_) thread->start();
  }

  void begin_drain() {
    if (state_->draining.exchange(true)) return;
    for (const auto& thread : threads_) thread->drain();
  }

  std::size_t close(std::chrono::milliseconds grace) {
    if (threads_.empty()) return 0;
    begin_drain();
    state_->wait_for_exchanges(std::chrono::steady_clock::now() + grace);
    std::promise<void> closed;
    net::post(threads_[0]->context(), [&] {
      for (const auto& socket : sockets_) socket->close();
      closed.set_value();
    });
    closed.get_future().wait();
    const std::size_t left = state_->stats().exchanges;
    for (const auto& thread : threads_) thread->stop();
    sockets_.clear();  // before the contexts that they belong to
    threads_.clear();
    return left;
  }

  const std::vector<int>& ports() const { return ports_; }

  const ServerState& state() const { return *state_; }

 private:
  // On the first thread.
  void take(IoThread& thread, Socket connected, Peer peer, bool tls) {
    boost::system::error_code ignored;
    connected.non_blocking(true, ignored);
    if (peer.network != "unix") {
      connected.set_option(net::ip::tcp::no_delay(true), ignored);
      connected.set_option(net::socket_base::keep_alive(true), ignored);
    }
    if (const int bytes = state_->options.send_buffer_bytes; bytes > 0)
      connected.set_option(net::socket_base::send_buffer_size(bytes), ignored);
    auto refusal = state_->take_place(peer.network);
    thread.add(std::move(connected), tls ? tls_.get() : nullptr, std::move(peer), std::move(refusal));
  }

  const std::shared_ptr<ServerState> state_;
  std::unique_ptr<net::ssl::context> tls_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::vector<std::shared_ptr<ListeningSocket>> sockets_;
  std::vector<int> ports_;
  std::size_t next_ = 0;  // of threads_, for the next connection
};

HttpServer::HttpServer(std::unique_ptr<Threads> threads) : threads_(std::move(threads)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::open(HttpServerOptions options, HttpHandler handler) {
  DI_RETURN_IF_ERROR(check(options));
  auto threads = std::make_unique<Threads>(std::move(options), std::move(handler));
  DI_RETURN_IF_ERROR(threads->listen());
  threads->start();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(threads)));
}

HttpServer::~HttpServer() {
  close(std::chrono::milliseconds(0));
}

std::vector<int> HttpServer::ports() const {
  return threads_->ports();
}

void HttpServer::begin_drain() {
  threads_->begin_drain();
}

std::size_t HttpServer::close(std::chrono::milliseconds grace) {
  return threads_->close(grace);
}

HttpServerStats HttpServer::stats() const {
  return threads_->state().stats();
}

}  // namespace deepinfer::serving
