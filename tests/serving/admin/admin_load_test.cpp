// Operators at work while clients are answered: nothing waits for ever, and every answer is the one that it is alone.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "serving/admin/admin_api.h"
#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

std::string question(int number) {
  return R"({"model":"tiny","max_tokens":16,"temperature":0,"thinking":{"type":"disabled"},"stream":)" +
         std::string(number % 2 == 0 ? "true" : "false") + R"(,"messages":[{"role":"user","content":"Count from )" +
         std::to_string(number) + R"( on, and then tell me about rivers."}]})";
}

// What was said, without ids and times.
std::string text_of(RecordedExchange& answer) {
  if (answer.status() != 200) return answer.body();
  if (!answer.streamed()) return answer.json()["choices"][0]["message"]["content"].get<std::string>();
  std::string text;
  for (const auto& [name, data] : events_of(answer.body())) {
    if (data == "[DONE]") continue;
    const Json event = parse_json(data).value();
    if (!event.contains("choices")) return data;
    for (const Json& choice : event["choices"])
      if (choice["delta"].contains("content") && choice["delta"]["content"].is_string())
        text += choice["delta"]["content"].get<std::string>();
  }
  return text;
}

TEST(AdminLoad, AnswersAreWhatTheyAreAlone) {
  const auto profile = std::make_shared<StepProfile>();
  EngineOptions engine_options;
  engine_options.model = DEEPINFER_TEST_MODEL;
  engine_options.max_context = 1024;
  engine_options.cache_bytes = 32 << 20;
  engine_options.kv_host_bytes = 16 << 20;
  engine_options.max_sequences = 4;
  engine_options.draft_schedule = DraftSchedule::kAll;
  engine_options.observers = {profile};
  CpuOpsOptions cpu;
  cpu.threads.threads = 2;
  auto engine = Engine::open(engine_options, make_cpu_ops(cpu).value()).value();

  ApiOptions options;
  options.requests.tokenizer = &test_tokenizer();
  options.requests.engine = engine.get();
  options.requests.end_tokens = {test_tokenizer().added_id("<｜end▁of▁sentence｜>").value()};
  options.requests.protocol.models = {"tiny"};
  Api api(*engine, std::move(options));
  const auto ask = [&](int number) {
    auto exchange = std::make_shared<RecordedExchange>(post("/v1/chat/completions", question(number)));
    api.handle(exchange);
    return exchange;
  };
  constexpr int kQuestions = 4;
  std::vector<std::string> alone;
  for (int i = 0; i < kQuestions; ++i) alone.push_back(text_of(*ask(i)));

  AdminOptions admin_options;
  admin_options.profile = profile;
  admin_options.drain = [] {};
  admin_options.draining = [] { return false; };
  admin_options.running = [&] { return api.running(); };
  AdminApi admin(*engine, std::move(admin_options));
  const auto operate = [&](HttpRequest request) {
    const auto exchange = std::make_shared<RecordedExchange>(std::move(request));
    admin.handle(exchange);
    return exchange;
  };
  std::atomic<bool> over{false};
  std::atomic<int> rounds{0};
  std::thread operator_thread([&] {
    for (int round = 0; !over || round < 3; ++round) {
      const auto recorded = operate(post("/admin/profile", R"({"steps":3,"timeout_seconds":1})"));
      EXPECT_EQ(operate(post("/admin/pause", round % 2 == 0 ? "" : R"({"mode":"drain"})"))->status(), 200);
      EXPECT_EQ(operate(get("/admin/state"))->json()["engine"], "paused");
      EXPECT_EQ(operate(post("/admin/flush-prefix-cache", round % 3 == 0 ? R"({"tiers":["device"]})" : ""))->status(),
                200);
      EXPECT_EQ(operate(post("/admin/resume", ""))->status(), 200);
      EXPECT_TRUE(recorded->json().is_array());
      ++rounds;
    }
  });
  std::vector<std::thread> clients;
  for (int client = 0; client < 2; ++client)
    clients.emplace_back([&, client] {
      for (int i = 0; i < kQuestions; ++i) {
        const int number = (i + client) % kQuestions;
        EXPECT_EQ(text_of(*ask(number)), alone[static_cast<size_t>(number)]) << number;
      }
    });
  for (std::thread& client : clients) client.join();
  over = true;
  operator_thread.join();
  EXPECT_GE(rounds, 3);
  api.close();
  engine->begin_close();
  admin.close();
  engine.reset();
}

}  // namespace
}  // namespace deepinfer::serving
