// A server without keys and the pages of others: what a browser sends for them without asking is refused.
#include <gtest/gtest.h>

#include <string>

#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
const std::string kText = "ok<｜end▁of▁sentence｜>";

HttpRequest with(HttpRequest request, const std::string& name, const std::string& value) {
  std::erase_if(request.headers, [&](const auto& header) { return header.first == name; });
  request.headers.emplace_back(name, value);
  return request;
}

HttpRequest from_page(const std::string& origin) {
  return with(with(post(kChat, chat_body()), "host", "127.0.0.1:8000"), "origin", origin);
}

TEST(CrossOrigin, PagesOfOthersAreRefused) {
  ApiTestServer server(kText);
  for (const char* origin : {"https://evil.example", "null", "http://127.0.0.1:8001", "http://localhost:8000",
                             "http://127.0.0.1", "127.0.0.1:8000", "://", "http://127.0.0.1:8000.evil.example"}) {
    EXPECT_EQ(server.send(from_page(origin))->status(), 403) << origin;
    ASSERT_TRUE(server.api().check_head(from_page(origin))) << origin;
    EXPECT_EQ(server.api().check_head(from_page(origin))->status, 403);
  }
  EXPECT_TRUE(server.engine().seen().empty());
  EXPECT_EQ(server.send(from_page("http://127.0.0.1:8000"))->status(), 200) << "the server's own page";
  EXPECT_EQ(server.send(from_page("HTTP://127.0.0.1:8000"))->status(), 200);
  EXPECT_EQ(server.send(with(get("/v1/models"), "origin", "https://evil.example"))->status(), 200)
      << "changes nothing, and the browser hides the answer";
  EXPECT_EQ(server.send(post(kChat, chat_body()))->status(), 200) << "no browser";
}

TEST(CrossOrigin, ListedOrigins) {
  ApiTestServer server([](const EngineRequest&) { return scripted_text(test_tokenizer(), kText); }, Profile::kExtended,
                       nullptr, 4096,
                       [](ApiOptions& options, Engine&) { options.cors_origins = {"https://a.example"}; });
  EXPECT_EQ(server.send(from_page("https://a.example"))->status(), 200);
  EXPECT_EQ(server.send(from_page("https://b.example"))->status(), 403);
  ApiTestServer all([](const EngineRequest&) { return scripted_text(test_tokenizer(), kText); }, Profile::kExtended,
                    nullptr, 4096, [](ApiOptions& options, Engine&) { options.cors_origins = {"*"}; });
  EXPECT_EQ(all.send(from_page("null"))->status(), 200);
}

// A page knows no key, and a browser asks before it sends one.
TEST(CrossOrigin, KeysAreEnough) {
  ApiTestServer server([](const EngineRequest&) { return scripted_text(test_tokenizer(), kText); }, Profile::kExtended,
                       ApiKeys::parse("sk\n", "keys").value());
  EXPECT_EQ(server.send(from_page("https://evil.example"))->status(), 401);
  EXPECT_EQ(server.send(with(from_page("https://evil.example"), "x-api-key", "sk"))->status(), 200);
}

TEST(CrossOrigin, BodiesAreJson) {
  ApiTestServer server(kText);
  const auto status = [&](const std::string& path, const std::string& type) {
    const HttpRequest request =
        with(post(path, path == kChat ? chat_body() : R"({"prompt":"a"})"), "content-type", type);
    const auto refused = server.api().check_head(request);
    const int answered = server.send(request)->status();
    EXPECT_EQ(refused ? refused->status : 200, answered);
    return answered;
  };
  for (const char* type :
       {"", "application/json", "Application/JSON; charset=utf-8", "application/json ;x=y", "application/vnd.api+json"})
    EXPECT_EQ(status(kChat, type), 200) << type;
  for (const char* type : {"text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded",
                           "multipart/form-data; boundary=x", "application/jsonx", "text/html", "json"}) {
    EXPECT_EQ(status(kChat, type), 415) << type;
    EXPECT_EQ(status("/tokenize", type), 415) << type;
  }
}

}  // namespace
}  // namespace deepinfer::serving
