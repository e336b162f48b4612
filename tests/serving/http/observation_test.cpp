// What an operator sees of the transport: the access log, trace contexts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "held_exchanges.h"
#include "raw_client.h"
#include "serving/http/access_log.h"
#include "serving/http/trace_context.h"

namespace deepinfer::serving {
namespace {

using testing::event_stream;
using testing::RawClient;

constexpr const char* kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(AccessLog, OneLineForEachRequest) {
  const std::string path = ::testing::TempDir() + "deepinfer_access_" + std::to_string(::getpid());
  {
    auto log = AccessLog::open(path);
    ASSERT_TRUE(log.ok());
    testing::HeldExchanges held;
    HttpServerOptions options;
    options.on_access = [&](const HttpAccess& access) { (*log)->record(access); };
    const auto server = testing::open_server(options, held.handler());
    RawClient client = RawClient::to_port(server->ports()[0]);
    ASSERT_TRUE(
        client.send("GET /a%22b?secret HTTP/1.1\r\nHost: h\r\ntraceparent: " + std::string(kTrace) + "\r\n\r\n"));
    EXPECT_EQ(client.read_response().status, 200);
    ASSERT_TRUE(client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    const auto exchange = held.next();
    exchange->begin_stream(event_stream());
    client.reset();
    ASSERT_TRUE(testing::eventually([&] { return server->stats().exchanges == 0; }));
    RawClient bad = RawClient::to_port(server->ports()[0]);
    ASSERT_TRUE(bad.send("nonsense\r\n\r\n"));
    EXPECT_EQ(bad.read_response().status, 400);
    EXPECT_EQ((*log)->lost(), 0u);
  }
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["method"], "GET");
  EXPECT_EQ(lines[0]["path"], "/a\"b");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[0]["peer"], "127.0.0.1");
  EXPECT_EQ(lines[0]["end"], "whole");
  EXPECT_EQ(lines[0]["trace"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_GT(lines[0]["bytes"], 50);
  EXPECT_EQ(lines[1]["end"], "client_left");
  EXPECT_FALSE(lines[1].contains("trace"));
  EXPECT_EQ(lines[2]["status"], 400);
  EXPECT_EQ(lines[2]["path"], "");
  ::unlink(path.c_str());
  EXPECT_EQ(AccessLog::open(::testing::TempDir()).status().code(), StatusCode::kIoError);
}

TEST(AccessLog, LevelsAndEvents) {
  const std::string path = ::testing::TempDir() + "deepinfer_levels_" + std::to_string(::getpid());
  HttpRequest request;
  const auto level = [&](const std::string& where, int status, HttpAccess::End end = HttpAccess::End::kWhole) {
    request.path = where;
    return level_of({&request, status, end});
  };
  EXPECT_EQ(level("/v1/models", 200), LogLevel::kInfo);
  EXPECT_EQ(level("/v1/models", 401), LogLevel::kInfo);
  EXPECT_EQ(level("/v1/models", 500), LogLevel::kError);
  EXPECT_EQ(level("/v1/models", 503), LogLevel::kWarning);
  EXPECT_EQ(level("/v1/models", 200, HttpAccess::End::kCut), LogLevel::kWarning);
  EXPECT_EQ(level("/health/ready", 200), LogLevel::kDebug);
  EXPECT_EQ(level("/health/ready", 503), LogLevel::kWarning);
  EXPECT_EQ(level("/metrics", 401), LogLevel::kInfo);
  EXPECT_EQ(level("/page/main.js", 200), LogLevel::kDebug);
  {
    auto log = AccessLog::open(path).value();
    log->set_level(LogLevel::kWarning);
    log->event(LogLevel::kInfo, "not written");
    request.path = "/v1/models";
    log->record({&request, 200});
    log->event(LogLevel::kError, "engine failed", "\"code\":7");
    log->record({&request, 500});
  }
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["event"], "engine failed");
  EXPECT_EQ(lines[0]["code"], 7);
  EXPECT_EQ(lines[0]["level"], "error");
  EXPECT_EQ(lines[1]["status"], 500);
  ::unlink(path.c_str());
  EXPECT_EQ(log_level("debug"), LogLevel::kDebug);
  EXPECT_FALSE(log_level("Debug"));
}

// Whatever a client sends, a request is one line that parses, and that controls no terminal.
TEST(AccessLog, NothingIsInjected) {
  HttpRequest request;
  request.id = "req_1";
  request.peer = "127.0.0.1";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string odd =
        std::string("a\"},{") + static_cast<char>(byte) + "\xC2" + static_cast<char>(byte) + "\xE2\x80\xA8z";
    request.method = request.path = odd;
    request.headers = {{"traceparent", odd}, {"user-agent", odd}};
    const std::string line = access_line({&request, 200});
    for (size_t i = 0; i < line.size(); ++i) {
      const auto c = static_cast<unsigned char>(line[i]);
      EXPECT_TRUE(c >= 0x20 && c != 0x7F) << byte;
      if (c == 0xC2 && i + 1 < line.size()) {
        EXPECT_GE(static_cast<unsigned char>(line[i + 1]), 0xA0) << byte;
      }
    }
    const auto parsed = nlohmann::json::parse(line);
    EXPECT_EQ(parsed.size(), 10u) << line;
    EXPECT_TRUE(parsed["path"].get<std::string>().starts_with("a\"},{")) << line;
  }
}

TEST(TraceContext, OnlyWhatTheStandardAllows) {
  const auto context = parse_traceparent(kTrace);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->parent_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02")->sampled);
  EXPECT_TRUE(parse_traceparent(std::string("cc") + (kTrace + 2)));
  EXPECT_TRUE(parse_traceparent(std::string("cc") + (kTrace + 2) + "-more"));
  for (const std::string& bad : {std::string(), std::string(kTrace) + "-more", std::string("ff") + (kTrace + 2),
                                 std::string("cc") + (kTrace + 2) + "more", std::string(kTrace).substr(0, 54),
                                 std::string("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"),
                                 std::string("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
                                 std::string("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
                                 std::string("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")})
    EXPECT_FALSE(parse_traceparent(bad)) << bad;
}

}  // namespace
}  // namespace deepinfer::serving
