// IoThread: one thread and all that happens to its connections.  Owned by the HttpServer; a connection stays with one
// thread, so nothing of it needs a lock.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "serving/http/connection.h"

namespace deepinfer::serving {

class IoThread {
 public:
  explicit IoThread(std::shared_ptr<ServerState> server);
  // Joins the thread; connections that are left are cut.
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  void start();
  boost::asio::io_context& context() { return context_; }

  // Any thread.
  void add(Socket socket, boost::asio::ssl::context* tls, Peer peer, std::optional<HttpError> refusal);
  void drain();
  void stop();  // cuts all connections and ends the thread

  // Connections, on this thread.
  ServerState& server() { return *server_; }
  std::shared_ptr<ServerState> shared_server() { return server_; }
  std::shared_ptr<ReadyQueue> queue() { return queue_; }
  void remove(Connection& connection);

 private:
  void arm_tick();
  void tick();
  void pump_ready();

  const std::shared_ptr<ServerState> server_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer timer_;
  const std::chrono::milliseconds tick_time_;
  bool ticking_ = false;
  bool stopping_ = false;
  const std::shared_ptr<ReadyQueue> queue_;
  std::vector<std::shared_ptr<ServerExchange>> ready_;  // being pumped
  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<char> scratch_;
  std::thread thread_;
};

}  // namespace deepinfer::serving
