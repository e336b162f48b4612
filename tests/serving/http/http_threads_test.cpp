// Many threads at once: handlers that write from threads of their own, clients that come, read, and leave early, and a
// server that closes in the middle of it.  Each answer is read whole and right, or its client left.  Run under
// ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "held_exchanges.h"
#include "raw_client.h"

namespace deepinfer::serving {
namespace {

using namespace std::chrono_literals;
using testing::event_stream;
using testing::eventually;
using testing::open_server;
using testing::RawClient;
using testing::RawResponse;

// "POST /stream" with the body N is answered with N events, written by some thread of this.
class StreamingHandler {
 public:
  StreamingHandler() {
    for (int i = 0; i < 3; ++i) threads_.emplace_back([this] { work(); });
  }
  ~StreamingHandler() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void handle(std::shared_ptr<HttpExchange> exchange) {
    exchange->on_client_gone([this] { ++gone; });
    exchange->set_heartbeat(": \n\n");
    exchange->begin_stream(event_stream());
    const int events = std::stoi(exchange->request().body);
    const std::lock_guard lock(mutex_);
    streams_.push_back({std::move(exchange), events});
    changed_.notify_one();
  }

  static std::string answer(int events) {
    std::string all;
    for (int i = 0; i < events; ++i) all += event(i);
    return all;
  }

  std::atomic<int> gone{0};

 private:
  struct Stream {
    std::shared_ptr<HttpExchange> exchange;
    int events = 0;
    int written = 0;
  };

  static std::string event(int i) { return "data: " + std::to_string(i) + "\n\n"; }

  // One event of the stream that waits longest, again and again.
  void work() {
    for (;;) {
      Stream stream;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ends_ || !streams_.empty(); });
        if (streams_.empty()) return;
        stream = std::move(streams_.front());
        streams_.pop_front();
      }
      const bool read = stream.exchange->write(event(stream.written++));
      if (!read || stream.written == stream.events) {
        stream.exchange->end_stream();
        continue;
      }
      const std::lock_guard lock(mutex_);
      streams_.push_back(std::move(stream));
      changed_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Stream> streams_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

// Heartbeats stand between events.
std::string without_heartbeats(std::string text) {
  for (std::size_t at; (at = text.find(": \n\n")) != text.npos && (at == 0 || text[at - 1] == '\n');) text.erase(at, 4);
  return text;
}

TEST(HttpThreads, AnswersAreWholeOrTheirClientLeft) {
  StreamingHandler handler;
  HttpServerOptions options;
  options.io_threads = 3;
  options.heartbeat = 8ms;
  const auto server =
      open_server(options, [&](std::shared_ptr<HttpExchange> exchange) { handler.handle(std::move(exchange)); });
  std::atomic<int> whole{0}, left{0};
  std::vector<std::thread> clients;
  for (unsigned seed = 0; seed < 4; ++seed) {
    clients.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 12; ++i) {
        RawClient client = RawClient::to_port(server->ports()[0]);
        for (int on_it = 0; on_it < 3; ++on_it) {
          const int events = 1 + static_cast<int>(random() % 60);
          const std::string body = std::to_string(events);
          client.send("POST /stream HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
                      "\r\n\r\n" + body);
          if (random() % 8 == 0) {
            ++left;
            if (random() % 2 == 0) client.reset();
            break;
          }
          const RawResponse response = client.read_response();
          ASSERT_TRUE(response.whole);
          ASSERT_EQ(without_heartbeats(response.body), StreamingHandler::answer(events));
          ++whole;
        }
        (void)server->stats();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(eventually([&] { return server->stats().exchanges == 0; }));
  EXPECT_GT(whole, 40);
  EXPECT_LE(handler.gone, left);
}

TEST(HttpThreads, CloseInTheMiddle) {
  for (int round = 0; round < 3; ++round) {
    StreamingHandler handler;
    const auto server =
        open_server({}, [&](std::shared_ptr<HttpExchange> exchange) { handler.handle(std::move(exchange)); });
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        for (;;) {
          RawClient client = RawClient::to_port(server->ports()[0]);
          if (!client.connected()) return;
          client.send("POST /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n500");
          const RawResponse response = client.read_response();
          if (response.status != 200) return;
          if (response.whole) {
            EXPECT_EQ(without_heartbeats(response.body), StreamingHandler::answer(500));
          }
        }
      });
    }
    ASSERT_TRUE(eventually([&] { return server->stats().requests >= 8; }));
    server->close(std::chrono::milliseconds(5 * round));
    for (std::thread& client : clients) client.join();
  }
}

}  // namespace
}  // namespace deepinfer::serving
