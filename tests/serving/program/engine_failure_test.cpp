// A server whose engine breaks down: what runs ends with an error, and the process with an exit code of its own, so
// that whoever watches it starts another.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "serve/server_run.h"
#include "serving/api/api_test_server.h"
#include "serving/http/raw_client.h"

namespace deepinfer::cli {
namespace {

using serving::ScriptedAnswer;
using serving::ScriptedEngine;
using serving::test_tokenizer;
using serving::testing::RawClient;

std::string chat(const std::string& more) {
  const std::string body = R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}])" + more + "}";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(EngineFailure, EndsTheServerWithAnExitCodeOfItsOwn) {
  ServerOptions options;
  options.unix_path = ::testing::TempDir() + "deepinfer_failure_" + std::to_string(::getpid());
  options.drain_seconds = 600;  // nothing waits for it
  options.protocol.model_names = {"tiny"};
  ServerParts parts;
  ASSERT_TRUE(check_options(options, parts).ok());
  LoadedEngine loaded;
  loaded.name = "tiny";
  loaded.tokenizer = Tokenizer::load(std::string(DEEPINFER_TEST_MODEL) + "/tokenizer.json").value();
  loaded.metrics = std::make_shared<EngineMetrics>();
  auto scripted = std::make_unique<ScriptedEngine>(test_tokenizer(), [](const EngineRequest&) {
    ScriptedAnswer answer = serving::scripted_text(test_tokenizer(), "some words");
    answer.holds = true;
    return answer;
  });
  ScriptedEngine& engine = *scripted;
  loaded.engine = std::move(scripted);
  const TerminationSignals signals;
  std::future<ExitCode> server =
      std::async(std::launch::async, [&] { return serve(options, std::move(parts), std::move(loaded), signals); });
  while (::access(options.unix_path->c_str(), F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  RawClient streaming = RawClient::to_path(*options.unix_path), whole = RawClient::to_path(*options.unix_path);
  ASSERT_TRUE(streaming.send(chat(R"(,"stream":true)")));
  ASSERT_TRUE(streaming.read_until("words", std::chrono::seconds(60)));
  ASSERT_TRUE(whole.send(chat("")));
  while (engine.stats().scheduler.running < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));

  engine.fail(Status(StatusCode::kInternal, "std::bad_alloc at 0x7f00"));
  const auto stream = streaming.read_response(false, std::chrono::seconds(60));
  EXPECT_TRUE(stream.whole);
  EXPECT_NE(stream.body.find("internal_error"), std::string::npos) << stream.body;
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  const auto answer = whole.read_response(false, std::chrono::seconds(60));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ((stream.body + answer.body).find("bad_alloc"), std::string::npos);
  EXPECT_EQ(server.get(), ExitCode::kEngineFailed);
  EXPECT_NE(::access(options.unix_path->c_str(), F_OK), 0) << "the socket is gone";
}

}  // namespace
}  // namespace deepinfer::cli
