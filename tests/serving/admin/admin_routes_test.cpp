// Each route of an operator does what it says, says what is wrong with a body, and is nowhere on the public listener.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "serving/admin/admin_api.h"
#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

constexpr const char* kRoutes[] = {
    "/admin/state",   "/admin/flush-prefix-cache", "/admin/drain", "/admin/pause", "/admin/resume",
    "/admin/profile", "/admin/log-level"};

class AdminRoutes : public ::testing::Test {
 protected:
  void open(std::unique_ptr<ApiKeys> keys = nullptr, AccessLog* log = nullptr) {
    options.keys = std::move(keys);
    options.profile = profile;
    options.log = log;
    options.drain = [this] { drained = true; };
    options.draining = [this] { return drained.load(); };
    options.running = [this] { return server.api().running(); };
    options.version = "1.2.3";
    admin.emplace(server.engine(), std::move(options));
  }
  std::shared_ptr<RecordedExchange> send(HttpRequest request) {
    if (!admin) open();
    auto exchange = std::make_shared<RecordedExchange>(std::move(request));
    admin->handle(exchange);
    return exchange;
  }
  std::shared_ptr<RecordedExchange> send(const std::string& path, const std::string& body = {}) {
    return send(post(path, body));
  }
  void TearDown() override {
    if (admin) admin->close();
  }

  ApiTestServer server{[](const EngineRequest&) {
    ScriptedAnswer answer = scripted_text(test_tokenizer(), "held");
    answer.holds = true;
    return answer;
  }};
  std::shared_ptr<StepProfile> profile = std::make_shared<StepProfile>();
  std::atomic<bool> drained{false};
  AdminOptions options;
  std::optional<AdminApi> admin;
};

TEST_F(AdminRoutes, NoneIsOnThePublicListener) {
  for (const char* path : kRoutes)
    for (const char* method : {"GET", "POST", "PUT", "DELETE"}) {
      HttpRequest request = post(path, "{}");
      request.method = method;
      EXPECT_EQ(server.send(request)->status(), 404) << method << " " << path;
      EXPECT_EQ(server.api().check_head(request)->status, 404) << method << " " << path;
    }
}

TEST_F(AdminRoutes, OthersAreRefused) {
  for (const char* path : {"/", "/admin", "/admin/", "/admin/state/", "/metrics", "/v1/models", "/health/live"})
    EXPECT_EQ(send(get(path))->status(), 404) << path;
  EXPECT_EQ(send("/admin/state")->header("allow"), "GET");
  EXPECT_EQ(send(get("/admin/drain"))->status(), 405);
  EXPECT_EQ(send("/admin/log-level")->header("allow"), "GET, PUT");
  EXPECT_EQ(admin->check_head(get("/admin/drain"))->status, 405);
  EXPECT_FALSE(admin->check_head(post("/admin/drain", "")).has_value());
  EXPECT_FALSE(drained);
}

TEST_F(AdminRoutes, WhatWatchesTheServerNeedsNoKeyOfItsClients) {
  options.watch = [this](const HttpRequest& request) { return server.api().watch(request); };
  EXPECT_EQ(send(get("/health/live"))->status(), 200);
  EXPECT_EQ(send(get("/health/ready"))->json()["status"], "ready");
  EXPECT_NE(send(get("/metrics"))->body().find("# TYPE"), std::string::npos);
  EXPECT_EQ(send(get("/v1/models"))->status(), 404);
  EXPECT_EQ(send("/v1/chat/completions", chat_body())->status(), 404);
  EXPECT_EQ(send(post("/metrics", ""))->status(), 404);
  EXPECT_FALSE(admin->check_head(get("/metrics")).has_value());
  server.engine().fail(Status(StatusCode::kInternal, "secret of this machine"));
  const auto ready = send(get("/health/ready"));
  EXPECT_EQ(ready->status(), 503);
  EXPECT_EQ(ready->json()["error"]["message"], "The engine has failed.");
  EXPECT_EQ(ready->header("retry-after"), "5");
}

TEST_F(AdminRoutes, PagesOfBrowsersAreRefused) {
  HttpRequest request = post("/admin/drain", "");
  request.headers.emplace_back("origin", "http://evil.example");
  EXPECT_EQ(send(request)->status(), 403);
  EXPECT_EQ(admin->check_head(request)->status, 403);
  EXPECT_FALSE(drained);
}

TEST_F(AdminRoutes, EverythingNeedsTheKeyWhereThereIsOne) {
  open(ApiKeys::parse("op-key\n", "keys").value());
  for (const char* path : kRoutes) {
    EXPECT_EQ(send(path)->status(), 401) << path;
    EXPECT_EQ(send(get(path))->status(), 401) << path;
    EXPECT_EQ(admin->check_head(post(path, ""))->status, 401);
  }
  HttpRequest state = get("/admin/state");
  state.headers.emplace_back("authorization", "Bearer op-key");
  EXPECT_EQ(send(state)->status(), 200);
}

TEST_F(AdminRoutes, StateAndPauseAndResume) {
  server.send("/v1/chat/completions", chat_body());
  while (server.engine().stats().scheduler.running == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Json state = send(get("/admin/state"))->json();
  EXPECT_EQ(state["engine"], "running");
  EXPECT_EQ(state["draining"], false);
  EXPECT_EQ(state["requests"]["running"], 1);
  EXPECT_EQ(state["requests"]["unanswered"], 1);
  EXPECT_EQ(state["version"], "1.2.3");
  EXPECT_TRUE(state["log_level"].is_null());

  EXPECT_EQ(send("/admin/resume")->status(), 409);
  EXPECT_EQ(send("/admin/pause", R"({"mode":"keep"})")->json()["engine"], "paused");
  EXPECT_EQ(server.send(get("/health/ready"))->status(), 503);
  EXPECT_EQ(send("/admin/pause")->status(), 409);
  EXPECT_EQ(send("/admin/resume", "{}")->json()["engine"], "running");
  // A pause that waits for a request holds up nobody else.
  const auto pause = send("/admin/pause", R"({"mode":"drain"})");
  EXPECT_EQ(send(get("/admin/state"))->json()["engine"], "running");
  EXPECT_EQ(send("/admin/flush-prefix-cache")->status(), 200);
  EXPECT_FALSE(pause->answered());
  server.api().end_running();
  EXPECT_EQ(pause->json()["status"], "paused");
}

TEST_F(AdminRoutes, TheCacheIsFlushedByTier) {
  EXPECT_EQ(send("/admin/flush-prefix-cache")->json()["status"], "flushed");
  send("/admin/flush-prefix-cache", R"({"tiers":["host"]})")->response();
  send("/admin/flush-prefix-cache", R"({"tiers":["device","device"]})")->response();
  EXPECT_EQ(server.engine().forgotten(), (std::vector<std::string>{"device host", "host", "device"}));
  for (const char* body : {R"({"tiers":[]})", R"({"tiers":["disk"]})", R"({"tiers":"host"})", R"({"tiers":[1]})",
                           R"({"tier":["host"]})", R"({"tiers":null})"})
    EXPECT_EQ(send("/admin/flush-prefix-cache", body)->status(), 400) << body;
  EXPECT_EQ(server.engine().forgotten().size(), 3U);
}

TEST_F(AdminRoutes, DrainBeginsTheEnd) {
  EXPECT_EQ(send("/admin/drain", R"({"now":true})")->status(), 400);
  EXPECT_FALSE(drained);
  EXPECT_EQ(send("/admin/drain")->json()["status"], "draining");
  EXPECT_TRUE(drained);
  EXPECT_EQ(send(get("/admin/state"))->json()["draining"], true);
}

TEST_F(AdminRoutes, BodiesThatAreWrongAreNamed) {
  const struct {
    const char* path;
    const char* body;
    const char* part;
  } kCases[] = {
      {"/admin/pause", "[]", "expected an object"},
      {"/admin/pause", "{", "invalid JSON"},
      {"/admin/pause", R"({"mode":"fast"})", R"(`mode` is "fast"; allowed: keep, drain)"},
      {"/admin/pause", R"({"mode":3})", "`mode` is 3"},
      {"/admin/resume", R"({"a\n":1})", "`a_` is no field here; allowed: none"},
      {"/admin/profile", R"({"steps":0})", "`steps` is 0; allowed: a whole number from 1 to 1000"},
      {"/admin/profile", R"({"steps":1001})", "`steps` is 1001"},
      {"/admin/profile", R"({"steps":18446744073709551615})", "`steps` is 18446744073709551615"},
      {"/admin/profile", R"({"steps":1.5})", "`steps` is 1.5"},
      {"/admin/profile", R"({"steps":"1"})", "`steps` is"},
      {"/admin/profile", R"({"timeout_seconds":601})",
       "`timeout_seconds` is 601; allowed: a whole number from 1 to 600"},
  };
  for (const auto& [path, body, part] : kCases) {
    const auto answer = send(path, body);
    EXPECT_EQ(answer->status(), 400) << body;
    EXPECT_NE(answer->json()["error"]["message"].get<std::string>().find(part), std::string::npos) << answer->body();
  }
}

TEST_F(AdminRoutes, AProfileEndsWithItsTimeWithTheServerAndWithTheEngine) {
  const auto timed = send("/admin/profile", R"({"steps":5,"timeout_seconds":1})");
  EXPECT_EQ(timed->status(), 200);
  EXPECT_EQ(timed->header("deepinfer-steps"), "0");
  EXPECT_TRUE(timed->json().is_array());
  auto first = send("/admin/profile");
  while (send("/admin/profile", R"({"timeout_seconds":1})")->status() != 409)
    if (first->answered()) first = send("/admin/profile");  // it came later than the other
  server.engine().fail(Status(StatusCode::kInternal, "broken"));
  EXPECT_EQ(first->status(), 503);
  EXPECT_EQ(send("/admin/pause")->status(), 409);
}

TEST_F(AdminRoutes, TheLogLevelIsReadAndSet) {
  EXPECT_EQ(send(get("/admin/log-level"))->status(), 409);
  admin->close();
  const std::string path = ::testing::TempDir() + "deepinfer_admin_log_" + std::to_string(::getpid());
  {
    const auto log = AccessLog::open(path).value();
    open(nullptr, log.get());
    EXPECT_EQ(send(get("/admin/log-level"))->json()["level"], "info");
    HttpRequest put = post("/admin/log-level", R"({"level":"error"})");
    put.method = "PUT";
    for (const char* body : {"{}", R"({"level":"loud"})", R"({"level":7})", R"({"lvl":"info"})"}) {
      put.body = body;
      EXPECT_EQ(send(put)->status(), 400) << body;
    }
    send("/admin/pause")->response();
    put.body = R"({"level":"error"})";
    EXPECT_EQ(send(put)->json()["level"], "error");
    send("/admin/resume")->response();
    EXPECT_EQ(log->level(), LogLevel::kError);
    admin->close();
  }
  std::ifstream file(path);
  std::string line, more;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(parse_json(line)->at("event"), "paused");
  EXPECT_FALSE(std::getline(file, more)) << more;
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace deepinfer::serving
