// Clients that leave, at every phase: the handler learns of it once, nothing else happens, nobody else notices.
#include <gtest/gtest.h>
#include <rapidcheck.h>

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
using testing::kGetHeld;
using testing::RawClient;
using testing::RawResponse;

class HttpDisconnectTest : public HttpTest {
 protected:
  void SetUp() override { open(); }
};

TEST_F(HttpDisconnectTest, WhileWaitingForTheAnswer) {
  for (const bool orderly : {true, false}) {
    RawClient client = connect();
    ASSERT_TRUE(client.send(kGetHeld));
    const auto exchange = held_.next();
    std::atomic<int> calls{0};
    exchange->on_client_gone([&] { ++calls; });
    orderly ? client.finish_sending() : client.reset();
    ASSERT_TRUE(eventually([&] { return calls == 1; }));
    exchange->respond({});  // nobody reads
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(server_->stats().clients_left, 2u);
  EXPECT_EQ(server_->stats().exchanges, 0u);
}

TEST_F(HttpDisconnectTest, WhileStreaming) {
  for (const bool orderly : {true, false}) {
    RawClient client = connect();
    ASSERT_TRUE(client.send(kGetHeld));
    const auto exchange = held_.next();
    exchange->begin_stream(event_stream());
    ASSERT_TRUE(exchange->write("data: 1\n\n"));
    ASSERT_TRUE(client.read_until("data: 1"));
    std::atomic<int> calls{0};
    exchange->on_client_gone([&] { ++calls; });
    orderly ? client.finish_sending() : client.reset();
    ASSERT_TRUE(eventually([&] { return !exchange->write("data: 2\n\n"); }));
    ASSERT_TRUE(eventually([&] { return calls == 1; }));
    exchange->end_stream();
  }
}

TEST_F(HttpDisconnectTest, LateInterestIsToldAtOnce) {
  RawClient client = connect();
  ASSERT_TRUE(client.send(kGetHeld));
  const auto exchange = held_.next();
  client.reset();
  ASSERT_TRUE(eventually([&] { return server_->stats().clients_left == 1; }));
  // The count comes a moment before; an interest of that moment may be told beside the one that came after it.
  const auto calls = std::make_shared<std::atomic<int>>(0);
  int asked = 0;
  ASSERT_TRUE(eventually([&] {
    ++asked;
    exchange->on_client_gone([calls] { ++*calls; });
    return *calls > 0;
  }));
  EXPECT_LE(*calls, asked);
}

TEST_F(HttpDisconnectTest, AnsweredRequestIsNotGone) {
  std::atomic<int> calls{0};
  {
    RawClient client = connect();
    ASSERT_TRUE(client.send(kGetHeld));
    const auto exchange = held_.next();
    exchange->on_client_gone([&] { ++calls; });
    exchange->respond({});
    EXPECT_EQ(client.read_response().status, 200);
  }
  ASSERT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(server_->stats().clients_left, 0u);
}

TEST_F(HttpDisconnectTest, ClientThatOnlyClosesItsSideBehindAQuickRequestIsAnswered) {
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
  client.finish_sending();
  EXPECT_EQ(client.read_response().body, "GET /a  ");
  EXPECT_TRUE(client.is_closed());
}

// A client that sends on behind its request is still seen to leave, though the server does not read what it sent; what
// it sent must fit the system's buffers, for its end comes behind it.
TEST_F(HttpDisconnectTest, BehindPipelinedBytes) {
  RawClient client = connect();
  ASSERT_TRUE(client.send(kGetHeld));
  const auto exchange = held_.next();
  std::atomic<int> calls{0};
  exchange->on_client_gone([&] { ++calls; });
  ASSERT_TRUE(client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 50000\r\n\r\n" + std::string(50000, 'x')));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 0);
  client.finish_sending();
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
}

// A witness streams all the while; each client sends a cut of a request, perhaps reads a little, and leaves in one of
// three ways.  At the end everything is back to zero and the witness has its whole answer.
TEST_F(HttpDisconnectTest, AnywhereAtRandom) {
  RawClient witness = connect();
  ASSERT_TRUE(witness.send("GET /held/witness HTTP/1.1\r\nHost: h\r\n\r\n"));
  const auto witnessed = held_.next();
  witnessed->begin_stream(event_stream());
  std::string expected;

  std::atomic<bool> ends{false};
  std::thread handler([&] {  // answers half of a stream, all of it, or nothing
    for (int i = 0; !ends; ++i) {
      if (const auto exchange = held_.next(); exchange && exchange->request().path != "/held/end" && i % 3 != 0) {
        exchange->begin_stream(event_stream());
        exchange->write("data: " + std::string(3000, 'y') + "\n\n");
        if (i % 3 == 1) exchange->end_stream();
      }
    }
  });
  const std::string messages[] = {
      kGetHeld,
      "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x'),
      "POST /held HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n3\r\nxyz\r\n0\r\n\r\n",
      "GET /a HTTP/1.1\r\nHost: h\r\n\r\n" + std::string(kGetHeld),
  };
  EXPECT_TRUE(rc::check([&] {
    const std::string& message = messages[*rc::gen::inRange<std::size_t>(0, std::size(messages))];
    const std::size_t cut = *rc::gen::inRange<std::size_t>(0, message.size() + 1);
    const int way = *rc::gen::inRange(0, 3);
    const bool reads = *rc::gen::arbitrary<bool>();
    RawClient client = connect();
    client.send(message.substr(0, cut));
    if (reads) client.read_until("\r\n\r\n", std::chrono::milliseconds(1));
    if (way == 0) client.reset();
    if (way == 1) client.finish_sending();
    RC_ASSERT(witnessed->write("data: w\n\n"));
    expected += "data: w\n\n";
  }));
  ends = true;
  {
    RawClient last = connect();
    ASSERT_TRUE(last.send("GET /held/end HTTP/1.1\r\nHost: h\r\n\r\n"));
    handler.join();
  }
  witnessed->end_stream();
  const RawResponse response = witness.read_response();
  EXPECT_TRUE(response.whole);
  EXPECT_EQ(response.body, expected);
  EXPECT_TRUE(eventually([&] { return server_->stats().exchanges == 0 && server_->stats().connections == 1; }));
  EXPECT_EQ(server_->stats().body_memory, 0u);
}

}  // namespace
}  // namespace deepinfer::serving
