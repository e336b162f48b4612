// ServerExchange: the meeting point of a handler, on any thread, and the connection that carries its answer, on its I/O
// thread.  Both hold it; it outlives the connection and the server.  ReadyQueue: the exchanges of one I/O thread that
// have something for their connections.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/http/http_exchange.h"
#include "serving/http/server_state.h"

namespace deepinfer::serving {

class Connection;
class ServerExchange;

class ReadyQueue {
 public:
  // wake: makes the I/O thread call take(); called where the queue was empty, and without the queue's lock, which the
  // thread that it wakes would wait for.
  explicit ReadyQueue(std::function<void()> wake) : wake_(std::move(wake)) {}
  void push(std::shared_ptr<ServerExchange> exchange);
  // All that is there, into `taken`, which is empty.
  void take(std::vector<std::shared_ptr<ServerExchange>>& taken);
  // The thread is gone: what is pushed is dropped, and wake is not called any more.
  void close();

 private:
  const std::function<void()> wake_;
  std::atomic<int> waking_{0};  // calls of wake_ that are under way
  std::mutex mutex_;            // of all below
  bool closed_ = false;
  std::vector<std::shared_ptr<ServerExchange>> ready_;
};

class ServerExchange : public std::enable_shared_from_this<ServerExchange> {
 public:
  // body_memory: bytes of `state` that the request's body takes, given back when this goes.
  ServerExchange(HttpRequest request, std::size_t body_memory, std::shared_ptr<ServerState> state,
                 std::shared_ptr<ReadyQueue> queue, Connection* connection);
  ~ServerExchange();

  // The handler's side: an HttpExchange whose end without an answer is an answer of its own (500, or a cut stream).
  std::shared_ptr<HttpExchange> make_handle();

  const HttpRequest& request() const { return request_; }
  void respond(HttpResponse response);
  void begin_stream(HttpResponse head);
  bool write(std::string_view bytes);
  void set_heartbeat(std::string bytes);
  void end_stream();
  void abort_stream();
  void describe(std::string members);
  void on_client_gone(std::function<void()> callback);
  // The handler has let go of it.
  void let_go();

  // The connection's side.
  struct Output {
    std::optional<HttpResponse> head;  // once
    bool whole = false;                // with head: its body is the answer; else a stream begins
    bool ended = false;                // what was taken with this, and before, is all
    bool aborted = false;              // as ended, and the client shall see that it is not whole
  };
  // What has come since the last call; the bytes of a stream go into `bytes`, which is empty.
  Output take(std::string& bytes);
  // More was written than may wait: nothing else will come.
  bool overflowed();
  // All that was taken has been sent.
  void sent();
  // Queues the heartbeat, where there is one and nothing else waits.
  void beat();
  // Nobody will read any more; tells the handler, unless the whole answer was sent before.
  void client_gone();
  // The whole answer has been sent.
  void finish();
  std::string description();
  // The connection, for its own thread; null when it has gone or has finished this.
  Connection* connection() const { return connection_; }
  void leave_connection() { connection_ = nullptr; }

 private:
  enum class Phase { kOpen, kStream, kEnded };
  // With mutex_ held: whether the queue has to hear of it.
  bool make_ready();
  void push() { queue_->push(shared_from_this()); }

  const HttpRequest request_;
  const std::size_t body_memory_;
  const std::shared_ptr<ServerState> state_;
  const std::shared_ptr<ReadyQueue> queue_;
  Connection* connection_;

  std::mutex mutex_;  // of all below
  Phase phase_ = Phase::kOpen;
  std::optional<HttpResponse> head_;  // not taken yet
  bool whole_ = false;
  bool aborted_ = false;
  bool overflowed_ = false;
  bool gone_ = false;
  bool finished_ = false;
  bool ready_ = false;         // in the queue
  std::string waiting_;        // bytes not taken yet
  std::size_t in_flight_ = 0;  // bytes taken and not sent
  std::string heartbeat_;
  std::string description_;
  std::function<void()> on_gone_;
};

}  // namespace deepinfer::serving
