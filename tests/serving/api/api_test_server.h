// The routes on a scripted engine, for tests: a request goes in, what its client sees comes out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serving/api/api.h"
#include "serving/api/recorded_exchange.h"
#include "serving/api/scripted_engine.h"

namespace deepinfer::serving {

inline const Tokenizer& test_tokenizer() {
  static const std::unique_ptr<Tokenizer> loaded =
      Tokenizer::load(std::string(DEEPINFER_TEST_MODEL) + "/tokenizer.json").value();
  return *loaded;
}

class ApiTestServer {
 public:
  explicit ApiTestServer(ScriptedEngine::Script script, Profile profile = Profile::kExtended,
                         std::unique_ptr<ApiKeys> keys = nullptr, size_t most_running = 4096,
                         const std::function<void(ApiOptions&, Engine&)>& adjust = {})
      : engine_(std::make_unique<ScriptedEngine>(test_tokenizer(), std::move(script))) {
    ApiOptions options;
    options.requests.tokenizer = &test_tokenizer();
    options.requests.engine = engine_.get();
    options.requests.end_tokens = {test_tokenizer().added_id("<｜end▁of▁sentence｜>").value()};
    options.requests.protocol.profile = profile;
    options.requests.protocol.models = {"DeepSeek-V4.1-Flash", "tiny"};
    options.requests.fingerprint = "fp";
    options.version = "1.2.3";
    options.most_running = most_running;
    options.keys = std::move(keys);
    if (adjust) adjust(options, *engine_);
    api_ = std::make_unique<Api>(*engine_, std::move(options));
  }
  // Every answer is this text.
  explicit ApiTestServer(const std::string& text, Profile profile = Profile::kExtended)
      : ApiTestServer([text](const EngineRequest&) { return scripted_text(test_tokenizer(), text); }, profile) {}
  ~ApiTestServer() {
    api_->close();
    engine_.reset();
  }

  std::shared_ptr<RecordedExchange> send(HttpRequest request) {
    auto exchange = std::make_shared<RecordedExchange>(std::move(request));
    api_->handle(exchange);
    return exchange;
  }
  std::shared_ptr<RecordedExchange> send(const std::string& path, const std::string& body) {
    return send(post(path, body));
  }
  Api& api() { return *api_; }
  ScriptedEngine& engine() { return *engine_; }

 private:
  std::unique_ptr<ScriptedEngine> engine_;
  std::unique_ptr<Api> api_;
};

// A Chat Completions body without thinking, with more fields: R"(,"stream":true)".
inline std::string chat_body(const std::string& more = {}) {
  return R"({"model":"DeepSeek-V4.1-Flash","messages":[{"role":"user","content":"Hi"}],"thinking":{"type":"disabled"})" +
         more + "}";
}

// The data of a stream's events, in order.
inline std::vector<std::pair<std::string, std::string>> events_of(const std::string& stream) {
  std::vector<std::pair<std::string, std::string>> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    if (end == std::string::npos) {
      events.emplace_back("torn", stream.substr(at));
      break;
    }
    std::string name;
    if (stream.compare(at, 7, "event: ") == 0) {
      const size_t line = stream.find('\n', at);
      name = stream.substr(at + 7, line - at - 7);
      at = line + 1;
    }
    const bool data = stream.compare(at, 6, "data: ") == 0;
    events.emplace_back(data ? name : "torn", data ? stream.substr(at + 6, end - at - 6) : stream.substr(at, end - at));
    at = end + 2;
  }
  return events;
}

}  // namespace deepinfer::serving
