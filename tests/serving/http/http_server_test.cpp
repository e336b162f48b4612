// The server's manners on the wire: versions, framing, connections, refusals, listeners.
#include "serving/http/http_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "http_test.h"

namespace deepinfer::serving {
namespace {

using namespace std::chrono_literals;
using testing::event_stream;
using testing::eventually;
using testing::HttpTest;
using testing::kGet;
using testing::open_server;
using testing::RawClient;
using testing::RawResponse;
using testing::refusals;

class HttpServerTest : public HttpTest {};

TEST_F(HttpServerTest, AnswersOneRequestAfterTheOther) {
  open();
  RawClient client = connect();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send("POST //a/../b?q HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
    const RawResponse response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST /b q hi");
    EXPECT_EQ(response.headers.at("content-type"), "text/plain");
    EXPECT_TRUE(response.headers.at("x-request-id").starts_with("req_"));
    EXPECT_TRUE(response.headers.at("date").ends_with(" GMT"));
    EXPECT_FALSE(response.headers.contains("connection"));
  }
  EXPECT_EQ(server_->stats().accepted, 1u);
  EXPECT_EQ(server_->stats().requests, 3u);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  open();
  RawClient client = connect();
  std::string all;
  for (int i = 0; i < 200; ++i) all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n";
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 200; ++i) ASSERT_EQ(client.read_response().body, "GET /" + std::to_string(i) + "  ");
}

TEST_F(HttpServerTest, PipelinedRequestWaitsForTheStreamBeforeIt) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"));
  const auto exchange = held_.next();
  ASSERT_TRUE(exchange);
  exchange->begin_stream(event_stream());
  EXPECT_TRUE(exchange->write("data: 1\n\n"));
  ASSERT_TRUE(client.read_until("data: 1\n\n"));
  EXPECT_TRUE(exchange->write("data: 2\n\n"));
  exchange->end_stream();
  const RawResponse stream = client.read_response();
  EXPECT_TRUE(stream.whole);
  EXPECT_EQ(stream.body, "data: 1\n\ndata: 2\n\n");
  EXPECT_EQ(stream.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(client.read_response().body, "GET /b  ");
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  const RawResponse kept = client.read_response();
  EXPECT_EQ(kept.headers.at("connection"), "keep-alive");
  ASSERT_TRUE(client.send("GET /held HTTP/1.0\r\n\r\n"));
  const auto exchange = held_.next();
  exchange->begin_stream(event_stream());
  exchange->write("abc");
  exchange->write("def");
  exchange->end_stream();
  const RawResponse stream = client.read_response();
  EXPECT_FALSE(stream.headers.contains("transfer-encoding"));
  EXPECT_EQ(stream.body, "abcdef");
  EXPECT_TRUE(stream.whole);
}

TEST_F(HttpServerTest, ClosesWhereTheClientAsks) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(client.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("HEAD /abc HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_EQ(client.read_response(true).headers.at("content-length"), "11");
  ASSERT_TRUE(client.send("HEAD /held HTTP/1.1\r\nHost: h\r\n\r\n"));
  const auto exchange = held_.next();
  exchange->begin_stream(event_stream());
  EXPECT_TRUE(exchange->write("not sent"));
  exchange->end_stream();
  EXPECT_EQ(client.read_response(true).headers.at("transfer-encoding"), "chunked");
  ASSERT_TRUE(client.send(kGet));
  EXPECT_EQ(client.read_response().body, "GET /a  ");
}

TEST_F(HttpServerTest, StatusesWithoutBody) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
  HttpResponse response;
  response.status = 204;
  held_.next()->respond(response);
  const RawResponse answer = client.read_response();
  EXPECT_EQ(answer.status, 204);
  EXPECT_FALSE(answer.headers.contains("content-length"));
  ASSERT_TRUE(client.send(kGet));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(HttpServerTest, ContinuesWhereTheClientWaits) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 100);
  ASSERT_TRUE(client.send("hi"));
  EXPECT_EQ(client.read_response().body, "POST /a  hi");
  // A body that is too large is refused instead.
  ASSERT_TRUE(
      client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 413);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpServerTest, RefusesInTheEnvelopeAndCloses) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n" + std::string(kGet)));
  const RawResponse response = client.read_response();
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body,
            "{\"error\":{\"message\":\"the request has more than one host field\",\"type\":\"invalid_request_error\","
            "\"param\":null,\"code\":\"invalid_request_error\"}}");
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(client.received(), "");
  EXPECT_EQ(refusals(*server_, HttpRefusal::kMalformed), 1u);
  EXPECT_EQ(server_->stats().requests, 0u);
}

TEST_F(HttpServerTest, RefusalReachesAClientThatIsStillSending) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  open(options);
  RawClient client = connect();
  ASSERT_TRUE(client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n"));
  EXPECT_TRUE(client.send(std::string(4000000, 'x')));
  EXPECT_EQ(client.read_response().status, 413);
}

TEST_F(HttpServerTest, FieldsOfAnAnswerCannotSplitIt) {
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
  HttpResponse response;
  response.headers = {{"x-echo", "a\r\nx-evil: b"}};
  response.body = "{}";
  held_.next()->respond(response);
  const RawResponse answer = client.read_response();
  EXPECT_EQ(answer.headers.at("x-echo"), "a  x-evil: b");
  EXPECT_FALSE(answer.headers.contains("x-evil"));
}

TEST_F(HttpServerTest, HandlerThatForgetsOrThrowsIsAnError) {
  server_ = open_server({}, [](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path == "/throw") throw std::runtime_error("secret");
    if (exchange->request().path == "/half") exchange->begin_stream(event_stream());
  });
  for (const char* path : {"/forget", "/throw"}) {
    RawClient client = connect();
    ASSERT_TRUE(client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n"));
    const RawResponse response = client.read_response();
    EXPECT_EQ(response.status, 500);
    EXPECT_NE(response.body.find("\"type\":\"internal_error\""), std::string::npos);
    EXPECT_EQ(response.body.find("secret"), std::string::npos);
  }
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /half HTTP/1.1\r\nHost: h\r\n\r\n"));
  const RawResponse response = client.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(response.whole);
}

TEST_F(HttpServerTest, AbortedStreamIsNotWhole) {
  open();
  for (const char* version : {"1.1", "1.0"}) {
    RawClient client = connect();
    ASSERT_TRUE(client.send("GET /held HTTP/" + std::string(version) + "\r\nHost: h\r\n\r\n"));
    const auto exchange = held_.next();
    exchange->begin_stream(event_stream());
    exchange->write("abc");
    ASSERT_TRUE(client.read_until("abc"));
    exchange->abort_stream();
    if (version == std::string("1.1")) {
      const RawResponse response = client.read_response();
      EXPECT_EQ(response.body, "abc");
      EXPECT_FALSE(response.whole);
    }
    EXPECT_TRUE(client.is_closed());
  }
}

TEST_F(HttpServerTest, HeadIsCheckedBeforeTheBody) {
  HttpServerOptions options;
  options.check_head = [](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.header("authorization") == "Bearer k") return std::nullopt;
    HttpResponse response;
    response.status = 401;
    response.body = "{}";
    return response;
  };
  open(options);
  RawClient client = connect();
  ASSERT_TRUE(client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 401);
  EXPECT_TRUE(client.is_closed());
  RawClient other = connect();
  ASSERT_TRUE(other.send(kGet));
  EXPECT_EQ(other.read_response().status, 401);
  ASSERT_TRUE(other.send("GET /a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n\r\n"));
  EXPECT_EQ(other.read_response().status, 200);
}

TEST_F(HttpServerTest, CorsIsOffUnlessListed) {
  const std::string preflight =
      "OPTIONS /a HTTP/1.1\r\nHost: h\r\nOrigin: https://page\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: content-type\r\n\r\n";
  const std::string get = "GET /a HTTP/1.1\r\nHost: h\r\nOrigin: https://page\r\n\r\n";
  open();
  RawClient client = connect();
  ASSERT_TRUE(client.send(preflight + get));
  EXPECT_EQ(client.read_response().status, 200);  // the handler's
  EXPECT_FALSE(client.read_response().headers.contains("access-control-allow-origin"));

  HttpServerOptions options;
  options.cors_origins = {"https://other", "https://page"};
  open(options);
  RawClient allowed = connect();
  ASSERT_TRUE(allowed.send(preflight + get));
  const RawResponse answer = allowed.read_response();
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://page");
  EXPECT_EQ(answer.headers.at("access-control-allow-headers"), "content-type");
  EXPECT_EQ(allowed.read_response().headers.at("access-control-allow-origin"), "https://page");
  ASSERT_TRUE(allowed.send("GET /a HTTP/1.1\r\nHost: h\r\nOrigin: https://evil\r\n\r\n"));
  EXPECT_FALSE(allowed.read_response().headers.contains("access-control-allow-origin"));
}

TEST_F(HttpServerTest, OtherHostsAreNotAnsweredFor) {
  HttpServerOptions options;
  options.allowed_hosts = {"localhost", "[::1]"};
  open(options);
  const auto status = [&](const std::string& host) {
    RawClient client = connect();
    client.send("GET /a HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return client.read_response().status;
  };
  EXPECT_EQ(status("LOCALHOST:80"), 200);
  EXPECT_EQ(status("[::1]:80"), 200);
  EXPECT_EQ(status("evil.example"), 421);
  RawClient old = connect();
  old.send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_response().status, 200);
  EXPECT_EQ(refusals(*server_, HttpRefusal::kHostNotAllowed), 1u);
}

TEST_F(HttpServerTest, UnixSocket) {
  const std::string path = ::testing::TempDir() + "deepinfer_http_" + std::to_string(::getpid());
  HttpServerOptions options;
  options.listeners = {{.unix_path = path}, {}};
  open(options);
  EXPECT_EQ(server_->ports()[0], 0);
  EXPECT_NE(server_->ports()[1], 0);
  struct stat file {};
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  RawClient client = RawClient::to_path(path);
  ASSERT_TRUE(client.send("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const auto exchange = held_.next();
  EXPECT_EQ(exchange->request().peer, "unix");
  EXPECT_EQ(exchange->request().listener, 0u);
  exchange->respond({});
  EXPECT_EQ(client.read_response().status, 200);

  const auto second = HttpServer::open(options, held_.handler());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("another process listens there"), std::string::npos);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));

  // Left by a process that was killed.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(dead);
  EXPECT_TRUE(HttpServer::open(options, held_.handler()).ok());

  std::ofstream(path) << "a file";
  EXPECT_FALSE(HttpServer::open(options, held_.handler()).ok());
  std::filesystem::remove(path);
}

TEST_F(HttpServerTest, BadOptionsAreNamed) {
  const auto error = [&](const std::function<void(HttpServerOptions&)>& change) {
    HttpServerOptions options;
    options.listeners.emplace_back();
    change(options);
    const auto server = HttpServer::open(options, held_.handler());
    return server.ok() ? std::string() : server.status().message();
  };
  EXPECT_TRUE(error([](auto& o) { o.listeners.clear(); }).starts_with("listeners"));
  EXPECT_TRUE(error([](auto& o) { o.listeners[0].port = 70000; }).starts_with("port: 70000"));
  EXPECT_TRUE(error([](auto& o) { o.listeners[0].host = "example"; }).starts_with("host: \"example\""));
  EXPECT_TRUE(error([](auto& o) { o.listeners[0].tls = true; }).starts_with("tls_certificate_file"));
  EXPECT_TRUE(error([](auto& o) { o.listeners[0].unix_path = std::string(200, 'x'); }).starts_with("unix_path"));
  EXPECT_TRUE(error([](auto& o) { o.io_threads = -1; }).starts_with("io_threads"));
  EXPECT_TRUE(error([](auto& o) { o.heartbeat = 0ms; }).starts_with("heartbeat"));
  EXPECT_TRUE(error([](auto& o) { o.max_header_bytes = 10; }).starts_with("max_header_bytes"));
  open();
  EXPECT_NE(error([&](auto& o) { o.listeners[0].port = server_->ports()[0]; }).find("cannot listen on 127.0.0.1:"),
            std::string::npos);
}

TEST(HttpListener, KnowsWhetherItIsLocal) {
  EXPECT_TRUE(*is_local({}));
  EXPECT_TRUE(*is_local({.host = "localhost"}));
  EXPECT_TRUE(*is_local({.host = "::1"}));
  EXPECT_TRUE(*is_local({.host = "0.0.0.0", .unix_path = "/x"}));
  EXPECT_FALSE(*is_local({.host = "0.0.0.0"}));
  EXPECT_FALSE(*is_local({.host = "::"}));
  EXPECT_FALSE(is_local({.host = "name"}).ok());
}

}  // namespace
}  // namespace deepinfer::serving
