#include "serving/http/io_thread.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace deepinfer::serving {
namespace {

namespace net = boost::asio;

constexpr std::size_t kScratchBytes = 64 << 10;
constexpr std::size_t kMaxRefused = 64;  // connections that are only told why they are not wanted

// Often enough for the shortest time limit to be kept within a quarter.
std::chrono::milliseconds tick_time(const HttpServerOptions& options) {
  const auto shortest = std::min({options.header_timeout, options.body_timeout, options.idle_timeout,
                                  options.write_timeout, options.linger_timeout, options.heartbeat});
  return std::clamp(shortest / 4, std::chrono::milliseconds(2), std::chrono::milliseconds(250));
}

}  // namespace

IoThread::IoThread(std::shared_ptr<ServerState> server)
    : server_(std::move(server)),
      work_(net::make_work_guard(context_)),
      timer_(context_),
      tick_time_(tick_time(server_->options)),
      queue_(std::make_shared<ReadyQueue>([this] { net::post(context_, [this] { pump_ready(); }); })),
      scratch_(kScratchBytes) {}

IoThread::~IoThread() {
  stop();
  if (thread_.joinable()) thread_.join();
  queue_->close();
}

void IoThread::start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "http");
    context_.run();
  });
}

void IoThread::stop() {
  net::post(context_, [this] {
    stopping_ = true;
    while (!connections_.empty()) {
      const std::shared_ptr<Connection> connection = connections_.back();
      connection->cut();
    }
    timer_.cancel();
    work_.reset();
  });
}

void IoThread::add(Socket socket, net::ssl::context* tls, Peer peer, std::optional<HttpError> refusal) {
  const auto shared = std::make_shared<Socket>(std::move(socket));
  net::post(context_, [this, shared, tls, peer = std::move(peer), refusal = std::move(refusal)]() mutable {
    const auto unwanted = [](const auto& connection) { return connection->refused(); };
    if (stopping_ || (refusal && (tls != nullptr || std::count_if(connections_.begin(), connections_.end(), unwanted) >=
                                                        static_cast<std::ptrdiff_t>(kMaxRefused)))) {
      if (!refusal) server_->give_back_place(peer.network);
      return;  // with the socket
    }
    auto stream =
        tls != nullptr ? make_tls_stream(std::move(*shared), *tls) : make_plain_stream(std::move(*shared), scratch_);
    auto connection = std::make_shared<Connection>(*this, std::move(stream), std::move(peer), std::move(refusal));
    connection->position = connections_.size();
    connections_.push_back(connection);
    arm_tick();
    connection->start();
  });
}

void IoThread::drain() {
  net::post(context_, [this] {
    for (std::size_t i = connections_.size(); i-- > 0;) {
      const std::shared_ptr<Connection> connection = connections_[i];
      connection->drain();
    }
  });
}

void IoThread::remove(Connection& connection) {
  const std::size_t position = connection.position;
  connections_.back()->position = position;
  std::swap(connections_[position], connections_.back());
  connections_.pop_back();
}

void IoThread::arm_tick() {
  if (ticking_ || connections_.empty() || stopping_) return;
  ticking_ = true;
  timer_.expires_after(tick_time_);
  timer_.async_wait([this](boost::system::error_code) { tick(); });
}

void IoThread::tick() {
  ticking_ = false;
  const auto now = Connection::Clock::now();
  // From the back: a connection that goes is replaced by one that had its turn.
  for (std::size_t i = connections_.size(); i-- > 0;) {
    const std::shared_ptr<Connection> connection = connections_[i];
    connection->tick(now);
  }
  arm_tick();
}

void IoThread::pump_ready() {
  queue_->take(ready_);
  for (const std::shared_ptr<ServerExchange>& exchange : ready_) {
    if (exchange->connection() == nullptr) continue;
    const std::shared_ptr<Connection> connection = exchange->connection()->shared_from_this();
    connection->pump();
  }
  ready_.clear();
}

}  // namespace deepinfer::serving
