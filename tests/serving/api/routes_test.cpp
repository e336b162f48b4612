// The table of routes, authentication and limits of keys, and the routes that answer without the engine.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
const std::string kText = std::string("ok") + "<｜end▁of▁sentence｜>";

ScriptedEngine::Script ok_script() {
  return [](const EngineRequest&) { return scripted_text(test_tokenizer(), kText); };
}

HttpRequest with_key(HttpRequest request, const std::string& name, const std::string& value) {
  request.headers.emplace_back(name, value);
  return request;
}

TEST(Routes, UnknownPathsAndMethods) {
  ApiTestServer server(kText);
  for (const char* path : {"/", "/v1", "/v1/", "/v1/chat", "/v1/chat/completions/", "/v1/embeddings",
                           "/v1/audio/speech", "/V1/chat/completions", "/tokenize/x"}) {
    const auto answer = server.send(post(path, "{}"));
    EXPECT_EQ(answer->status(), 404) << path;
    EXPECT_EQ(answer->json()["error"]["code"], "not_found_error");
    EXPECT_TRUE(server.api().check_head(get(path)).has_value()) << path;
  }
  const auto wrong = server.send(get(kChat));
  EXPECT_EQ(wrong->status(), 405);
  EXPECT_EQ(wrong->header("allow"), "POST");
  EXPECT_EQ(server.send(post("/v1/models", ""))->header("allow"), "GET, HEAD");
  EXPECT_EQ(server.api().check_head(get(kChat))->status, 405);
  HttpRequest head = get("/health/live");
  head.method = "HEAD";
  EXPECT_EQ(server.send(head)->status(), 200);
  EXPECT_FALSE(server.api().check_head(post(kChat, "")).has_value());
}

TEST(Routes, Models) {
  ApiTestServer server(kText);
  const Json list = server.send(get("/v1/models"))->json();
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "DeepSeek-V4.1-Flash");
  EXPECT_EQ(server.send(get("/v1/models/tiny"))->json()["max_model_len"], 8192);
  EXPECT_EQ(server.send(get("/v1/models/../etc/passwd"))->status(), 404);
  EXPECT_EQ(server.send(get("/version"))->json()["version"], "1.2.3");
}

TEST(Routes, TokenizeAndBack) {
  ApiTestServer server(kText);
  const Json tokens = server.send("/tokenize", R"({"prompt":"rfid501.go <think>"})")->json();
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["tokens"][0], test_tokenizer().added_id("<｜begin▁of▁sentence｜>").value());
  for (const Json& id : tokens["tokens"]) EXPECT_NE(id, test_tokenizer().added_id("<think>").value());
  const auto back = server.send("/detokenize", Json{{"tokens", tokens["tokens"]}}.dump());
  EXPECT_EQ(back->json()["prompt"], "<｜begin▁of▁sentence｜>rfid501.go <think>");
  // O-10: one begin-of-sentence token, also where the text spells one that counts.
  const Json spelled =
      server.send("/tokenize", R"({"prompt":"<｜begin▁of▁sentence｜>hi","allow_special":true})")->json();
  EXPECT_NE(spelled["tokens"][1], spelled["tokens"][0]);
  const Json chat = server.send("/tokenize", R"({"messages":[{"role":"user","content":"Hi"}]})")->json();
  server.send(kChat, R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}]})")->response();
  EXPECT_EQ(chat["tokens"].get<std::vector<int32_t>>(), server.engine().seen()[0].prompt);
  for (const char* body : {"[]", "{}", R"({"prompt":7})", R"({"prompt":"a","allow_special":1})", R"({"messages":[]})"})
    EXPECT_EQ(server.send("/tokenize", body)->status(), 400) << body;
  for (const char* body : {"{}", R"({"tokens":[-1]})", R"({"tokens":[99999999]})", R"({"tokens":["a"]})"})
    EXPECT_EQ(server.send("/detokenize", body)->status(), 400) << body;
}

TEST(Routes, CountTokens) {
  ApiTestServer server(kText);
  const std::string body = R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}]})";
  const auto count = server.send("/v1/messages/count_tokens", body);
  server.send("/v1/messages", body)->response();
  EXPECT_EQ(count->json()["input_tokens"], server.engine().seen()[0].prompt.size());
  const auto wrong = server.send("/v1/messages/count_tokens", "{}");
  EXPECT_EQ(wrong->status(), 400);
  EXPECT_EQ(wrong->json()["type"], "error");
}

TEST(Routes, AnEngineThatHasFailed) {
  ApiTestServer server(kText);
  server.engine().fail(Status(StatusCode::kInternal, "std::bad_alloc"));
  for (const auto& answer :
       {server.send(get("/health/ready")), server.send(kChat, chat_body()),
        server.send(kChat, chat_body(R"(,"stream":true)")), server.send(kChat, chat_body(R"(,"n":3)"))}) {
    EXPECT_EQ(answer->status(), 503);
    EXPECT_EQ(answer->header("retry-after"), "5");
    EXPECT_EQ(answer->json()["error"]["message"], "The engine has failed.");
  }
  EXPECT_EQ(server.send(get("/health/live"))->status(), 200);
  EXPECT_EQ(server.api().running(), 0U);
}

TEST(Routes, TheLogSaysWhatARequestWas) {
  ApiTestServer server(ok_script(), Profile::kExtended, ApiKeys::parse("sk-one name=team.a\nsk-two\n", "keys").value());
  const auto whole = server.send(with_key(post(kChat, chat_body()), "x-api-key", "sk-one"));
  Json line = whole->description();
  EXPECT_EQ(line["key"], "team.a");
  EXPECT_EQ(line["stream"], false);
  EXPECT_EQ(line["prompt_tokens"], server.engine().seen()[0].prompt.size());
  EXPECT_EQ(line["reason"], "stop");
  for (const char* name : {"cached_tokens", "answer_tokens", "drafted", "accepted", "queue_ms", "first_token_ms"})
    EXPECT_TRUE(line[name].is_number()) << name;
  EXPECT_EQ(whole->description().dump().find("Hi"), std::string::npos);
  EXPECT_EQ(server.send(with_key(get("/v1/models"), "x-api-key", "sk-two"))->description(), (Json{{"key", "key-2"}}));
  EXPECT_EQ(server.send(with_key(post(kChat, "{"), "x-api-key", "sk-two"))->description(), (Json{{"key", "key-2"}}));
  EXPECT_EQ(server.send(get("/v1/models"))->description(), Json::object());
}

TEST(Routes, MetricsAndTraces) {
  ApiTestServer server(kText);
  HttpRequest request = post(kChat, chat_body(R"(,"user":"u","stran\"ge\n":1)"));
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  request.headers.emplace_back("traceparent", parent);
  const auto answer = server.send(request);
  EXPECT_EQ(answer->header("traceparent"), parent);
  EXPECT_EQ(answer->header("deepinfer-ignored"), "user, stran_ge_");
  const std::string text = server.send(get("/metrics"))->body();
  EXPECT_NE(text.find("deepinfer_http_requests_total{route=\"/v1/chat/completions\",status=\"200\",key=\"\"} 1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("deepinfer_ignored_fields_total{field=\"user\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("deepinfer_http_first_event_seconds_count 1\n"), std::string::npos);
  request.headers.back().second = "00-zz";
  EXPECT_EQ(server.send(request)->header("traceparent"), "");
}

TEST(Keys, Files) {
  EXPECT_TRUE(ApiKeys::parse("# comment\n\nsk-a\n sk-b  concurrency=2 requests-per-minute=10\t\r\n", "keys").ok());
  for (const auto& [text, what] : {std::pair{"", "no key"},
                                   {"#x\n", "no key"},
                                   {"a\na\n", "line 2: the key is there already"},
                                   {"a b\n", "line 1: behind the key"},
                                   {"a concurrency=0\n", "line 1: concurrency is `0`"},
                                   {"a name=\n", "line 1: name: expected 1 to 64 letters"},
                                   {"a name=x/y\n", "line 1: name: expected"},
                                   {"a name=b\nc name=b\n", "line 2: another key has the name b"},
                                   {"a concurrency=-1\n", "allowed: 1 to"},
                                   {"a highest-priority=1001\n", "allowed: -1000 to 1000"},
                                   {"a tokens-per-minute=1e9\n", "tokens-per-minute is `1e9`"},
                                   {"\xFF\n", "line 1: the key has bytes"}}) {
    const auto keys = ApiKeys::parse(text, "keys");
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_NE(keys.status().message().find(what), std::string::npos) << keys.status().message();
  }
  EXPECT_EQ(ApiKeys::read("/nowhere/keys").status().code(), StatusCode::kNotFound);
}

TEST(Keys, EverythingButLiveNeedsOne) {
  ApiTestServer server(ok_script(), Profile::kExtended, ApiKeys::parse("sk-one\nsk-two\n", "keys").value());
  EXPECT_EQ(server.send(get("/health/live"))->status(), 200);
  for (const HttpRequest& request :
       {get("/health/ready"), get("/metrics"), get("/v1/models"), get("/version"), post(kChat, chat_body()),
        post("/tokenize", R"({"prompt":"a"})"), get("/nowhere"), get(kChat), post("/health/live", "")}) {
    const auto refused = server.send(request);
    EXPECT_EQ(refused->status(), 401) << request.path;
    EXPECT_EQ(refused->json()["error"]["code"], "authentication_error");
    EXPECT_EQ(server.api().check_head(request)->status, 401);
    for (const char* wrong :
         {"Bearer sk-onE", "Bearer sk-on", "Bearer sk-onee", "Bearer ", "Basic sk-one", "sk-one", "Bearer"})
      EXPECT_EQ(server.send(with_key(request, "authorization", wrong))->status(), 401) << wrong;
    EXPECT_NE(server.send(with_key(request, "authorization", "Bearer sk-one"))->status(), 401) << request.path;
    EXPECT_NE(server.send(with_key(request, "authorization", "bearer  sk-two"))->status(), 401);
    EXPECT_NE(server.send(with_key(request, "x-api-key", "sk-two"))->status(), 401);
  }
}

TEST(Keys, TenantsShareNoPrefix) {
  ApiTestServer server(ok_script(), Profile::kExtended, ApiKeys::parse("sk-one\nsk-two\n", "keys").value());
  const auto salt = [&](const char* key, const std::string& more) {
    server.send(with_key(post(kChat, chat_body(more)), "x-api-key", key))->response();
    return server.engine().seen().back().cache_salt;
  };
  EXPECT_NE(salt("sk-one", ""), 0u);
  EXPECT_EQ(salt("sk-one", ""), salt("sk-one", ""));
  EXPECT_NE(salt("sk-one", ""), salt("sk-two", ""));
  EXPECT_NE(salt("sk-one", R"(,"cache_salt":"a")"), salt("sk-two", R"(,"cache_salt":"a")"));
  EXPECT_NE(salt("sk-one", R"(,"cache_salt":"a")"), salt("sk-one", ""));
}

TEST(Keys, Limits) {
  using Clock = KeyAccount::Clock;
  const Clock::time_point start{std::chrono::hours(1)};
  const auto at = [&](double seconds) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  KeyAccount requests({.requests_per_minute = 2}, 1);
  EXPECT_FALSE(requests.begin(at(0)));
  EXPECT_FALSE(requests.begin(at(0)));
  const auto refused = requests.begin(at(0));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->retry_after, 30);
  EXPECT_FALSE(requests.begin(at(30.5)));
  EXPECT_TRUE(requests.begin(at(31)));

  KeyAccount tokens({.tokens_per_minute = 600}, 1);
  EXPECT_FALSE(tokens.begin(at(0)));
  tokens.charge(700, at(0));  // an answer in progress may go beyond
  EXPECT_TRUE(tokens.begin(at(5)));
  EXPECT_FALSE(tokens.begin(at(11)));

  KeyAccount concurrency({.concurrency = 1}, 1);
  EXPECT_FALSE(concurrency.begin(at(0)));
  EXPECT_TRUE(concurrency.begin(at(0)));
  concurrency.end();
  EXPECT_FALSE(concurrency.begin(at(0)));
}

// Above what its key may have a request is refused, not lowered.
TEST(Keys, Priorities) {
  ApiTestServer server(ok_script(), Profile::kExtended,
                       ApiKeys::parse("plain\nvip highest-priority=500\nlow highest-priority=-10\n", "keys").value());
  const auto status = [&](const char* key, int priority) {
    const std::string body = chat_body(",\"priority\":" + std::to_string(priority));
    const auto answer = server.send(with_key(post(kChat, body), "x-api-key", key));
    if (answer->status() == 400) {
      EXPECT_NE(answer->body().find("Invalid priority value"), std::string::npos);
    }
    return answer->status();
  };
  EXPECT_EQ(status("plain", 0), 200);
  EXPECT_EQ(status("plain", -1000), 200);
  EXPECT_EQ(status("plain", 1), 400);
  EXPECT_EQ(status("vip", 500), 200);
  EXPECT_EQ(server.engine().seen().back().priority, 500);
  EXPECT_EQ(status("vip", 501), 400);
  EXPECT_EQ(status("low", -10), 200);
  EXPECT_EQ(status("low", 0), 400);
  ApiTestServer open(ok_script());
  EXPECT_EQ(open.send(kChat, chat_body(R"(,"priority":1000)"))->status(), 200);
}

TEST(Keys, PlacesAreGivenBack) {
  ApiTestServer server(ok_script(), Profile::kExtended, ApiKeys::parse("sk concurrency=1\n", "keys").value());
  const auto send = [&](const std::string& path, const std::string& body) {
    return server.send(with_key(post(path, body), "x-api-key", "sk"))->status();
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(send(kChat, chat_body()), 200);
    EXPECT_EQ(send(kChat, "{}"), 400);
    EXPECT_EQ(send("/tokenize", "{}"), 400);
  }
}

}  // namespace
}  // namespace deepinfer::serving
