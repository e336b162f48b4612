// Every limit of the server: what goes beyond it gets one clear answer or is cut, and others do not notice.
#include <gtest/gtest.h>

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

class HttpLimitsTest : public HttpTest {
 protected:
  bool serves() {
    RawClient client = connect();
    return client.send(kGet) && client.read_response().status == 200;
  }
};

TEST_F(HttpLimitsTest, HeadBytesAndFields) {
  HttpServerOptions options;
  options.max_header_bytes = 1024;
  options.max_header_fields = 10;
  open(options);
  const auto status = [&](const std::string& bytes) {
    RawClient client = connect();
    client.send(bytes);
    const int got = client.read_response().status;
    EXPECT_TRUE(client.is_closed());
    return got;
  };
  EXPECT_EQ(status("GET /" + std::string(5000, 'x')), 414);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: " + std::string(5000, 'x')), 431);
  std::string fields;
  for (int i = 0; i < 11; ++i) fields += "X: y\r\n";
  EXPECT_EQ(status("GET / HTTP/1.1\r\n" + fields + "\r\n"), 431);
  EXPECT_EQ(refusals(*server_, HttpRefusal::kHeaderTooLarge), 3u);
  EXPECT_TRUE(serves());
}

TEST_F(HttpLimitsTest, BodyBytes) {
  HttpServerOptions options;
  options.max_body_bytes = 100;
  open(options);
  RawClient fits = connect();
  ASSERT_TRUE(fits.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x')));
  EXPECT_EQ(fits.read_response().status, 200);
  RawClient chunked = connect();
  ASSERT_TRUE(chunked.send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"));
  for (int i = 0; i < 101; ++i) ASSERT_TRUE(chunked.send("1\r\nx\r\n"));
  EXPECT_EQ(chunked.read_response().status, 413);
  EXPECT_TRUE(chunked.is_closed());
  EXPECT_EQ(refusals(*server_, HttpRefusal::kBodyTooLarge), 1u);
}

TEST_F(HttpLimitsTest, BodiesOfAllRequestsTogether) {
  HttpServerOptions options;
  options.max_body_memory = 1000;
  open(options);
  const std::string post = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n" + std::string(600, 'x');
  RawClient first = connect();
  ASSERT_TRUE(first.send(post));
  auto exchange = held_.next();
  ASSERT_TRUE(exchange);
  EXPECT_EQ(server_->stats().body_memory, 600u);
  RawClient second = connect();
  ASSERT_TRUE(second.send(post));
  const RawResponse refused = second.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "2");
  exchange->respond({});
  exchange.reset();
  EXPECT_EQ(first.read_response().status, 200);
  ASSERT_TRUE(eventually([&] { return server_->stats().body_memory == 0; }));
  RawClient third = connect();
  ASSERT_TRUE(third.send(post));
  EXPECT_TRUE(held_.next());  // and forgotten: a 500
  EXPECT_EQ(third.read_response().status, 500);
}

TEST_F(HttpLimitsTest, Connections) {
  HttpServerOptions options;
  options.max_connections = 3;
  open(options);
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().send(kGet));
    ASSERT_EQ(clients.back().read_response().status, 200);
  }
  RawClient unwanted = connect();
  const RawResponse response = unwanted.read_response();  // without asking
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.at("retry-after"), "2");
  EXPECT_TRUE(unwanted.is_closed());
  EXPECT_EQ(refusals(*server_, HttpRefusal::kTooManyConnections), 1u);
  ASSERT_TRUE(clients[0].send(kGet));
  EXPECT_EQ(clients[0].read_response().status, 200);
  clients.pop_back();
  ASSERT_TRUE(eventually([&] { return server_->stats().connections < 3; }));
  EXPECT_TRUE(serves());
}

TEST_F(HttpLimitsTest, ConnectionsOfOnePeer) {
  const std::string path = ::testing::TempDir() + "deepinfer_peer_" + std::to_string(::getpid());
  HttpServerOptions options;
  options.listeners = {{}, {.unix_path = path}};
  options.max_connections_per_peer = 2;
  open(options);
  RawClient first = connect(), second = connect();
  for (RawClient* client : {&first, &second}) {
    ASSERT_TRUE(client->send(kGet));
    ASSERT_EQ(client->read_response().status, 200);
  }
  RawClient third = connect();
  EXPECT_EQ(third.read_response().status, 429);
  EXPECT_EQ(refusals(*server_, HttpRefusal::kTooManyFromPeer), 1u);
  RawClient other = RawClient::to_path(path);
  ASSERT_TRUE(other.send(kGet));
  EXPECT_EQ(other.read_response().status, 200);
}

TEST_F(HttpLimitsTest, ManyUnwantedConnectionsAreClosedUnanswered) {
  HttpServerOptions options;
  options.max_connections = 1;
  options.io_threads = 1;
  options.linger_timeout = 20s;
  open(options);
  RawClient wanted = connect();
  ASSERT_TRUE(wanted.send(kGet));
  ASSERT_EQ(wanted.read_response().status, 200);
  std::vector<RawClient> crowd;
  int answered = 0;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(connect());
    if (crowd.back().read_response().status == 503) ++answered;
  }
  EXPECT_EQ(answered, 64);
}

TEST_F(HttpLimitsTest, SlowHeads) {
  HttpServerOptions options;
  options.header_timeout = 100ms;
  options.linger_timeout = 100ms;
  open(options);
  RawClient silent = connect();
  RawClient second = connect();
  ASSERT_TRUE(second.send(kGet));
  ASSERT_EQ(second.read_response().status, 200);
  std::this_thread::sleep_for(150ms);  // an idle connection may rest longer than a head may take
  ASSERT_TRUE(second.send(kGet));
  EXPECT_EQ(second.read_response().status, 200);

  EXPECT_TRUE(silent.is_closed());
  RawClient dripping = connect();
  dripping.send_slowly("GET /a HTTP/1.1\r\nHost: h\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", 1, 5ms);
  EXPECT_EQ(dripping.read_response().status, 408);
  EXPECT_TRUE(dripping.is_closed());
  ASSERT_TRUE(second.send("GET /a HTT"));
  EXPECT_EQ(second.read_response().status, 408);
  EXPECT_EQ(refusals(*server_, HttpRefusal::kHeaderTimeout), 2u);
}

TEST_F(HttpLimitsTest, SlowBodies) {
  HttpServerOptions options;
  options.body_timeout = 100ms;
  open(options);
  RawClient client = connect();
  ASSERT_TRUE(client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n"));
  client.send_slowly(std::string(60, 'x'), 1, 4ms);
  EXPECT_EQ(client.read_response().status, 408);
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(refusals(*server_, HttpRefusal::kBodyTimeout), 1u);
  EXPECT_EQ(server_->stats().requests, 0u);
}

TEST_F(HttpLimitsTest, IdleConnectionsAreClosed) {
  HttpServerOptions options;
  options.idle_timeout = 100ms;
  open(options);
  RawClient client = connect();
  ASSERT_TRUE(client.send(kGet));
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(client.received(), "");
}

TEST_F(HttpLimitsTest, ClientThatLingersIsClosed) {
  HttpServerOptions options;
  options.linger_timeout = 50ms;
  open(options);
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpLimitsTest, ClientThatDoesNotReadIsCutAndOthersAreNot) {
  HttpServerOptions options;
  options.max_queued_bytes = 64 << 10;
  options.send_buffer_bytes = 8 << 10;
  options.io_threads = 1;
  open(options);
  RawClient sleeper = connect(4096);
  ASSERT_TRUE(sleeper.send(kGetHeld));
  const auto slow = held_.next();
  RawClient reader = connect();
  ASSERT_TRUE(reader.send(kGetHeld));
  const auto quick = held_.next();
  std::atomic<int> gone{0};
  slow->on_client_gone([&] { ++gone; });
  quick->on_client_gone([&] { gone += 100; });
  slow->begin_stream(event_stream());
  quick->begin_stream(event_stream());
  bool slow_goes_on = true;
  std::string expected;
  for (int i = 0; i < 400; ++i) {
    const std::string event = "data: " + std::to_string(i) + std::string(1000, 'x') + "\n\n";
    slow_goes_on = slow_goes_on && slow->write(event);
    ASSERT_TRUE(quick->write(event));
    expected += event;
    ASSERT_TRUE(reader.read_until(event));
  }
  EXPECT_FALSE(slow_goes_on);
  quick->end_stream();
  const RawResponse response = reader.read_response();
  EXPECT_TRUE(response.whole);
  EXPECT_EQ(response.body, expected);
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  EXPECT_EQ(refusals(*server_, HttpRefusal::kSlowReader), 1u);
  EXPECT_FALSE(slow->write("more"));
  slow->end_stream();
  EXPECT_FALSE(sleeper.read_response().whole);
}

TEST_F(HttpLimitsTest, ClientThatTakesNothingForLongIsCut) {
  HttpServerOptions options;
  options.write_timeout = 100ms;
  options.send_buffer_bytes = 8 << 10;
  open(options);
  RawClient sleeper = connect(4096);
  ASSERT_TRUE(sleeper.send(kGetHeld));
  HttpResponse response;
  response.body.assign(16 << 20, 'x');
  held_.next()->respond(std::move(response));
  EXPECT_TRUE(eventually([&] { return refusals(*server_, HttpRefusal::kSlowReader) == 1; }));
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpLimitsTest, LargeAnswerReachesAClientThatReads) {
  HttpServerOptions options;
  options.max_queued_bytes = 1024;  // of streams
  open(options);
  RawClient client = connect();
  ASSERT_TRUE(client.send(kGetHeld));
  HttpResponse response;
  response.body.assign(8 << 20, 'x');
  held_.next()->respond(std::move(response));
  EXPECT_EQ(client.read_response().body.size(), std::size_t{8} << 20);
}

TEST_F(HttpLimitsTest, HeartbeatsComeWhileNothingElseDoes) {
  HttpServerOptions options;
  options.heartbeat = 40ms;
  open(options);
  RawClient client = connect();
  ASSERT_TRUE(client.send(kGetHeld));
  const auto exchange = held_.next();
  exchange->set_heartbeat(": \n\n");
  exchange->begin_stream(event_stream());
  ASSERT_TRUE(client.read_until("4\r\n: \n\n\r\n4\r\n: \n\n\r\n"));
  exchange->write("data: 1\n\n");
  exchange->end_stream();
  const RawResponse response = client.read_response();
  EXPECT_TRUE(response.whole);
  EXPECT_TRUE(response.body.starts_with(": \n\n: \n\n"));
  EXPECT_TRUE(response.body.ends_with("data: 1\n\n"));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(client.received(), "");  // none behind the end
}

}  // namespace
}  // namespace deepinfer::serving
