// What an operator sees of the transport: the access log, trace contexts, counters.
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
#include "serving/http/transport_metrics.h"

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

TEST(TransportMetrics, EveryRefusalHasALine) {
  HttpServerStats stats;
  stats.connections = 3;
  stats.refusals[static_cast<std::size_t>(HttpRefusal::kDraining)] = 7;
  const std::string text = transport_metrics_text(stats);
  EXPECT_NE(text.find("# TYPE deepinfer_transport_connections gauge\ndeepinfer_transport_connections 3\n"), text.npos);
  EXPECT_NE(text.find("deepinfer_transport_refusals_total{reason=\"draining\"} 7\n"), text.npos);
  EXPECT_NE(text.find("{reason=\"no_descriptors\"} 0\n"), text.npos);
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
