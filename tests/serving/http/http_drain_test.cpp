// The end of a server: running requests go on, new ones learn why not, and what is left is cut in time.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "http_test.h"

namespace deepinfer::serving {
namespace {

using namespace std::chrono_literals;
using testing::event_stream;
using testing::eventually;
using testing::HttpTest;
using testing::kGet;
using testing::kGetHeld;
using testing::RawClient;
using testing::RawResponse;
using testing::refusals;

class HttpDrainTest : public HttpTest {
 protected:
  void SetUp() override {
    HttpServerOptions options;
    options.drain_paths = {"/health/live"};
    options.linger_timeout = 100ms;
    open(std::move(options));
  }
};

TEST_F(HttpDrainTest, StreamsGoOnAndNewRequestsAreRefused) {
  RawClient streaming = connect(), waiting = connect(), idle = connect(), half = connect();
  ASSERT_TRUE(streaming.send(kGetHeld));
  const auto stream = held_.next();
  stream->begin_stream(event_stream());
  ASSERT_TRUE(waiting.send(kGetHeld));
  const auto held = held_.next();
  ASSERT_TRUE(idle.send(kGet));
  ASSERT_EQ(idle.read_response().status, 200);
  ASSERT_TRUE(half.send("GET /a HTTP/1.1\r\n"));
  std::this_thread::sleep_for(10ms);

  server_->begin_drain();
  EXPECT_TRUE(idle.is_closed());
  ASSERT_TRUE(half.send("Host: h\r\n\r\n"));
  const RawResponse refused = half.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "2");
  EXPECT_EQ(refused.headers.at("connection"), "close");
  RawClient late = connect();
  ASSERT_TRUE(late.send(kGet));
  EXPECT_EQ(late.read_response().status, 503);
  RawClient live = connect();
  ASSERT_TRUE(live.send("GET /health/live HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_EQ(live.read_response().status, 200);
  EXPECT_EQ(refusals(*server_, HttpRefusal::kDraining), 2u);

  EXPECT_TRUE(stream->write("data: 1\n\n"));
  stream->end_stream();
  EXPECT_TRUE(streaming.read_response().whole);
  EXPECT_TRUE(streaming.is_closed());
  held->respond({});
  EXPECT_EQ(waiting.read_response().headers.at("connection"), "close");
  EXPECT_EQ(server_->close(5s), 0u);
  EXPECT_FALSE(connect().connected());
}

TEST_F(HttpDrainTest, CloseWaitsForTheAnswer) {
  RawClient client = connect();
  ASSERT_TRUE(client.send(kGetHeld));
  const auto exchange = held_.next();
  std::thread answer([&] {
    std::this_thread::sleep_for(50ms);
    exchange->begin_stream(event_stream());
    exchange->write(std::string(500000, 'x'));
    exchange->end_stream();
  });
  std::thread reader([&] {
    const RawResponse response = client.read_response();
    EXPECT_TRUE(response.whole);
    EXPECT_EQ(response.body.size(), 500000u);
  });
  EXPECT_EQ(server_->close(10s), 0u);
  answer.join();
  reader.join();
}

TEST_F(HttpDrainTest, CloseCutsWhatIsLeft) {
  RawClient client = connect();
  ASSERT_TRUE(client.send(kGetHeld));
  const auto exchange = held_.next();
  exchange->begin_stream(event_stream());
  std::atomic<int> gone{0};
  exchange->on_client_gone([&] { ++gone; });
  EXPECT_EQ(server_->close(20ms), 1u);
  EXPECT_EQ(gone, 1);
  EXPECT_FALSE(client.read_response().whole);
  server_.reset();
  // The handler may go on with it for as long as it likes.
  EXPECT_FALSE(exchange->write("data: 1\n\n"));
  exchange->end_stream();
}

TEST_F(HttpDrainTest, CloseTwiceAndUnused) {
  EXPECT_EQ(server_->close(0ms), 0u);
  EXPECT_EQ(server_->close(0ms), 0u);
  server_->begin_drain();
  EXPECT_EQ(server_->stats().connections, 0u);
}

}  // namespace
}  // namespace deepinfer::serving
