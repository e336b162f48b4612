// Generating routes on a scripted engine: streams and objects, ends, errors, choices, clients that leave.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kEnd = "<｜end▁of▁sentence｜>";

std::string text_of_chunks(const std::string& stream, int choice = 0) {
  std::string text;
  for (const auto& [name, data] : events_of(stream)) {
    if (data == "[DONE]") continue;
    const Json chunk = parse_json(data).value();
    for (const Json& one : chunk["choices"])
      if (one["index"] == choice && one.contains("delta") && one["delta"]["content"].is_string())
        text += one["delta"]["content"].get<std::string>();
  }
  return text;
}

TEST(ChatCompletions, OneObject) {
  ApiTestServer server(std::string("Hello there.") + kEnd);
  const auto answer = server.send(kChat, chat_body());
  EXPECT_EQ(answer->status(), 200) << answer->body();
  EXPECT_FALSE(answer->streamed());
  EXPECT_EQ(answer->response().content_type, "application/json");
  const Json object = answer->json();
  EXPECT_EQ(object["object"], "chat.completion");
  EXPECT_EQ(object["model"], "DeepSeek-V4.1-Flash");
  EXPECT_EQ(object["system_fingerprint"], "fp");
  EXPECT_EQ(object["choices"][0]["message"]["content"], "Hello there.");
  EXPECT_EQ(object["choices"][0]["finish_reason"], "stop");
  EXPECT_GT(object["usage"]["completion_tokens"], 0);
  EXPECT_EQ(object["usage"]["prompt_tokens"], server.engine().seen()[0].prompt.size());
  EXPECT_TRUE(object["id"].get<std::string>().starts_with("chatcmpl-"));
}

// To the byte, but for the id and the time of the answer.
TEST(ChatCompletions, StreamToTheByte) {
  ApiTestServer server(std::string("ab") + kEnd);
  const auto answer = server.send(kChat, chat_body(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_EQ(answer->status(), 200);
  EXPECT_TRUE(answer->streamed());
  EXPECT_EQ(answer->response().content_type, "text/event-stream; charset=utf-8");
  EXPECT_EQ(answer->header("cache-control"), "no-cache");
  std::string body = answer->body();
  const Json first = parse_json(events_of(body)[0].second).value();
  const std::string head =
      "data: {\"id\":\"" + first["id"].get<std::string>() +
      "\",\"object\":\"chat.completion.chunk\",\"created\":" + std::to_string(first["created"].get<int64_t>()) +
      ",\"model\":\"DeepSeek-V4.1-Flash\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,";
  std::string expected =
      head + R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null})" +
      "\n\n";
  std::vector<int32_t> ids;
  ASSERT_TRUE(test_tokenizer().encode("ab", ids).ok());
  for (const int32_t id : ids)
    expected += head + R"("delta":{"content":")" + std::string(test_tokenizer().bytes(id)) +
                R"("},"logprobs":null,"finish_reason":null}],"usage":null})" + "\n\n";
  const auto prompt = static_cast<int64_t>(server.engine().seen()[0].prompt.size());
  const auto output = static_cast<int64_t>(ids.size());
  expected +=
      head + R"("delta":{"content":""},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":)" +
      std::to_string(prompt) + R"(,"completion_tokens":)" + std::to_string(output) + R"(,"total_tokens":)" +
      std::to_string(prompt + output) +
      R"(,"prompt_tokens_details":{"cached_tokens":0},"prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":)" +
      std::to_string(prompt) + "}}\n\ndata: [DONE]\n\n";
  EXPECT_EQ(body, expected);
}

TEST(ChatCompletions, SeveralChoices) {
  ApiTestServer server([](const EngineRequest& request) {
    return scripted_text(test_tokenizer(), "answer " + std::to_string(request.choice) + kEnd);
  });
  const auto whole = server.send(kChat, chat_body(R"(,"n":3,"seed":5)"));
  ASSERT_EQ(whole->status(), 200) << whole->body();
  const Json object = whole->json();
  ASSERT_EQ(object["choices"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(object["choices"][i]["index"], i);
    EXPECT_EQ(object["choices"][i]["message"]["content"], "answer " + std::to_string(i));
  }
  const auto seen = server.engine().seen();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(object["usage"]["prompt_tokens"], seen[0].prompt.size());
  for (const EngineRequest& request : seen) EXPECT_EQ(request.params.seed, 5u);

  const auto stream = server.send(kChat, chat_body(R"(,"n":2,"stream":true,"stream_options":{"include_usage":true})"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(text_of_chunks(stream->body(), i), "answer " + std::to_string(i));
  const auto events = events_of(stream->body());
  EXPECT_EQ(events.back().second, "[DONE]");
  int ends = 0, usages = 0;
  for (const auto& [name, data] : events) {
    if (data == "[DONE]") continue;
    const Json chunk = parse_json(data).value();
    usages += chunk["usage"].is_object();
    for (const Json& choice : chunk["choices"]) ends += !choice["finish_reason"].is_null();
  }
  EXPECT_EQ(ends, 2);
  EXPECT_EQ(usages, 1);
}

TEST(OtherProtocols, StreamsEndAsTheyShould) {
  ApiTestServer server(std::string("Some text.") + kEnd);
  const auto responses = server.send(
      "/v1/responses", R"({"model":"DeepSeek-V4.1-Flash","input":"Hi","reasoning":{"effort":"none"},"stream":true})");
  EXPECT_EQ(events_of(responses->body()).front().first, "response.created");
  EXPECT_EQ(events_of(responses->body()).back().first, "response.completed");
  const auto messages =
      server.send("/v1/messages", R"({"model":"DeepSeek-V4.1-Flash","max_tokens":9,"stream":true,)"
                                  R"("thinking":{"type":"disabled"},"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(events_of(messages->body()).front().first, "message_start");
  EXPECT_EQ(events_of(messages->body()).back().first, "message_stop");
  EXPECT_EQ(messages->header("request-id"), "req-1");
  const auto text = server.send(
      "/v1/completions",
      R"({"model":"tiny","prompt":"Once","echo":true,"stream":true,"stream_options":{"include_usage":true}})");
  std::string joined;
  for (const auto& [name, data] : events_of(text->body())) {
    if (data == "[DONE]") continue;
    const Json chunk = parse_json(data).value();
    for (const Json& choice : chunk["choices"]) joined += choice["text"].get<std::string>();
  }
  EXPECT_EQ(joined, "OnceSome text.");
  EXPECT_EQ(events_of(text->body()).back().second, "[DONE]");
}

// message_start waits for the first token, which comes with the number of cached tokens; its head does not wait.
TEST(Messages, StartTellsWhatWasCached) {
  ApiTestServer server([](const EngineRequest&) {
    ScriptedAnswer answer = scripted_text(test_tokenizer(), std::string("x") + kEnd);
    answer.cached_tokens = 2;
    return answer;
  });
  const auto stream =
      server.send("/v1/messages", R"({"model":"tiny","stream":true,"messages":[{"role":"user","content":"Hi"}]})");
  const auto events = events_of(stream->body());
  ASSERT_EQ(events.front().first, "message_start") << stream->body();
  const Json usage = Json::parse(events.front().second)["message"]["usage"];
  EXPECT_EQ(usage["cache_read_input_tokens"], 2);
  EXPECT_EQ(usage["input_tokens"], server.engine().seen()[0].prompt.size() - 2);
}

TEST(Usage, TellsOfDraftsWhereTheServerDoes) {
  for (const bool shown : {false, true}) {
    ApiTestServer server(
        [](const EngineRequest&) {
          ScriptedAnswer answer = scripted_text(test_tokenizer(), std::string("x") + kEnd);
          answer.drafted = 5;
          answer.accepted = 3;
          return answer;
        },
        Profile::kExtended, nullptr, 4096, [&](ApiOptions& options, Engine&) { options.requests.draft_usage = shown; });
    const std::string message = R"("messages":[{"role":"user","content":"Hi"}]})";
    Json details[] = {
        server.send(kChat, chat_body(R"(,"n":2)"))->json()["usage"]["completion_tokens_details"],
        server.send("/v1/completions", R"({"model":"tiny","prompt":["x","y"]})")
            ->json()["usage"]["completion_tokens_details"],
        server.send("/v1/responses", R"({"model":"tiny","input":"Hi"})")->json()["usage"]["output_tokens_details"],
        server.send("/v1/messages", R"({"model":"tiny",)" + message)->json()["usage"]};
    for (size_t i = 0; i < 4; ++i) {
      const int answers = i < 2 ? 2 : 1;
      EXPECT_EQ(details[i].contains("accepted_prediction_tokens"), shown) << i << details[i];
      if (!shown) continue;
      EXPECT_EQ(details[i]["accepted_prediction_tokens"], 3 * answers);
      EXPECT_EQ(details[i]["rejected_prediction_tokens"], 2 * answers);
    }
  }
}

TEST(Ends, OfEveryKind) {
  EndReason reason = EndReason::kLength;
  Status failure;
  ApiTestServer server([&](const EngineRequest&) {
    ScriptedAnswer answer = scripted_text(test_tokenizer(), "a b c", reason);
    answer.failure = failure;
    return answer;
  });
  const std::string stream = chat_body(R"(,"stream":true)");
  EXPECT_EQ(server.send(kChat, chat_body())->json()["choices"][0]["finish_reason"], "length");

  reason = EndReason::kDeadline;
  EXPECT_EQ(server.send(kChat, chat_body())->status(), 408);
  auto events = events_of(server.send(kChat, stream)->body());
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(parse_json(events[events.size() - 2].second)->at("error")["code"], "timeout_error");
  EXPECT_EQ(events.back().second, "[DONE]");

  reason = EndReason::kError;
  failure = Status(StatusCode::kCorruptFile, "/secret/path: the logits are not finite");
  const auto failed = server.send(kChat, chat_body());
  EXPECT_EQ(failed->status(), 500);
  EXPECT_EQ(failed->body().find("secret"), std::string::npos) << "nothing of the inside is told";
  EXPECT_EQ(failed->json()["error"]["code"], "internal_error");
  const auto messages =
      server.send("/v1/messages", R"({"model":"tiny","stream":true,"messages":[{"role":"user","content":"Hi"}]})");
  events = events_of(messages->body());
  EXPECT_EQ(events.back().first, "error");
  const Json error = parse_json(events.back().second).value();
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["request_id"], "req-1");
}

// What only a compiled grammar shows is still a 400, also of a stream: nothing was sent before.
TEST(Ends, AWrongGrammarIsARefusal) {
  ApiTestServer server([](const EngineRequest& request) {
    EXPECT_TRUE(request.grammar.has_value());
    ScriptedAnswer answer;
    answer.end = EndReason::kError;
    answer.failure = invalid_argument("regex: unclosed group at 3");
    return answer;
  });
  const auto refused =
      server.send(kChat, chat_body(R"(,"stream":true,"response_format":{"type":"regex","regex":"abc("})"));
  EXPECT_EQ(refused->status(), 400);
  EXPECT_FALSE(refused->streamed());
  EXPECT_NE(refused->body().find("unclosed group"), std::string::npos);
}

TEST(Clients, WhoLeaveEndTheirGenerationOnly) {
  ApiTestServer server([](const EngineRequest& request) {
    ScriptedAnswer answer =
        scripted_text(test_tokenizer(), request.params.seed == 1 ? "a long story" : "short<｜end▁of▁sentence｜>");
    answer.holds = request.params.seed == 1;
    return answer;
  });
  for (const char* more : {R"(,"seed":1,"stream":true)", R"(,"seed":1)", R"(,"seed":1,"n":3)"}) {
    const size_t before = server.engine().cancelled();
    const auto leaving = server.send(kChat, chat_body(more));
    if (std::string(more).find("stream") != std::string::npos) leaving->wait_for_bytes(200);
    const auto other = server.send(kChat, chat_body(R"(,"seed":2)"));
    EXPECT_EQ(other->json()["choices"][0]["message"]["content"], "short");
    leaving->leave();
    leaving->response();  // ends
    EXPECT_GT(server.engine().cancelled(), before);
  }
  // One that takes no more bytes is given up too.
  const auto slow = std::make_shared<RecordedExchange>(post(kChat, chat_body(R"(,"seed":1,"stream":true)")));
  slow->stop_reading_after(300);
  server.api().handle(slow);
  EXPECT_TRUE(slow->aborted());
  EXPECT_EQ(server.api().running(), 0u);
}

TEST(Clients, WhoHaveLeftBeforeTheStart) {
  ApiTestServer server(std::string("x") + kEnd);
  const auto gone = std::make_shared<RecordedExchange>(post(kChat, chat_body()));
  gone->leave();
  server.api().handle(gone);
  gone->response();
  EXPECT_EQ(server.api().running(), 0u);
}

TEST(Drain, RefusesNewOnesAndEndsTheRest) {
  ApiTestServer server([](const EngineRequest&) {
    ScriptedAnswer answer = scripted_text(test_tokenizer(), "a long story");
    answer.holds = true;
    return answer;
  });
  const auto streaming = server.send(kChat, chat_body(R"(,"stream":true)"));
  const auto messages =
      server.send("/v1/messages", R"({"model":"tiny","stream":true,"messages":[{"role":"user","content":"Hi"}]})");
  const auto whole = server.send(kChat, chat_body());
  streaming->wait_for_bytes(200);
  messages->wait_for_bytes(200);
  server.api().begin_drain();
  const auto late = server.send(kChat, chat_body());
  EXPECT_EQ(late->status(), 503);
  EXPECT_EQ(late->header("retry-after"), "5");
  EXPECT_EQ(server.send(get("/health/ready"))->status(), 503);
  EXPECT_EQ(server.send(get("/health/live"))->status(), 200);
  using Clock = std::chrono::steady_clock;
  EXPECT_FALSE(server.api().wait_until_idle(Clock::now() + std::chrono::milliseconds(20)));
  server.api().end_running();
  EXPECT_TRUE(server.api().wait_until_idle(Clock::now() + std::chrono::seconds(60)));
  EXPECT_EQ(whole->status(), 503);
  EXPECT_EQ(whole->json()["error"]["code"], "overloaded_error");
  EXPECT_FALSE(streaming->aborted());
  const auto events = events_of(streaming->body());
  EXPECT_EQ(parse_json(events[events.size() - 2].second)->at("error")["message"], "The server is shutting down.");
  EXPECT_EQ(events_of(messages->body()).back().first, "error");
}

TEST(Limits, RequestsThatRun) {
  ApiTestServer server(
      [](const EngineRequest&) {
        ScriptedAnswer answer;
        answer.holds = true;
        return answer;
      },
      Profile::kExtended, nullptr, 2);
  const auto first = server.send(kChat, chat_body());
  const auto second = server.send(kChat, chat_body());
  EXPECT_EQ(server.send(kChat, chat_body())->status(), 503);
  first->leave();
  first->response();
  const auto third = server.send(kChat, chat_body());
  server.api().end_running();
  EXPECT_EQ(second->status(), 503);
  EXPECT_EQ(third->status(), 503);
}

TEST(Engine, ItsRefusalsAreErrors) {
  ApiTestServer server(std::string("x") + kEnd);
  const auto wrong = server.send(kChat, chat_body(R"(,"logit_bias":{"99999999":5})"));
  EXPECT_EQ(wrong->status(), 400) << wrong->body();
  server.engine().refuse_with({StatusCode::kResourceExhausted, "not enough memory for a request"});
  const auto full = server.send(kChat, chat_body(R"(,"stream":true)"));
  EXPECT_EQ(full->status(), 503);
  EXPECT_EQ(full->header("retry-after"), "1");
  EXPECT_EQ(server.api().running(), 0u);
}

}  // namespace
}  // namespace deepinfer::serving
