// Requests with grammars in any company, with drafts, preemption and shared prefixes, have the answers that they have
// alone without any of these.  On the best CPU path of this machine.
#include <gtest/gtest.h>

#include <random>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

#ifdef DEEPINFER_SANITIZED_BUILD  // many times slower
constexpr int kSchedules = 1, kRequests = 4;
#else
constexpr int kSchedules = 3, kRequests = 10;
#endif

OpsBackend backend() {
  const CpuIsa best = machine_paths().back();
  return {"cpu", [best] { return make_cpu_path(best, 2); }};
}

std::vector<GrammarSpec> grammars() {
  const auto tokenizer = Tokenizer::load(std::filesystem::path(DEEPINFER_TEST_MODEL) / "tokenizer.json").value();
  GrammarSpec object;
  object.text = R"({"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"type":"array","items":
      {"type":"integer","minimum":0,"maximum":300},"maxItems":3}},"required":["a","b"]})";
  GrammarSpec expression;
  expression.kind = GrammarSpec::Kind::kRegex;
  expression.text = "(yes|no), [0-9]{3}(-[a-f]+)*";
  GrammarSpec calls;
  calls.kind = GrammarSpec::Kind::kToolCalls;
  calls.tools = {{"weather", object.text}, {"any", "", false}};
  std::vector<GrammarSpec> list{object, expression, calls};
  calls.call_required = true;
  list.push_back(calls);
  calls.reasoning_end = tokenizer->added_id("</think>");
  list.push_back(calls);
  calls.call_required = false;
  calls.content = GrammarSpec::Content::kRegex;
  calls.text = expression.text;
  list.push_back(calls);
  calls.reasoning_end.reset();
  list.push_back(calls);
  return list;
}

TEST(GrammarCompany, EveryAnswerIsItsSoloAnswer) {
  const std::vector<GrammarSpec> specs = grammars();
  EngineOptions alone_options;
  alone_options.max_context = 2048;
  alone_options.max_sequences = 1;
  alone_options.prefix_cache = false;
  alone_options.draft_schedule = DraftSchedule::kAll;
  EngineRun alone(backend(), alone_options);
  for (int schedule = 0; schedule < kSchedules; ++schedule) {
    std::mt19937 random(static_cast<uint32_t>(schedule));
    EngineOptions options;
    options.max_context = 2048;
    options.max_sequences = schedule == 0 ? 8 : 4;
    options.step_rows = 64;
    options.cache_bytes = schedule == 1 ? 2048 * 534 : options.cache_bytes;  // hardly holds one request
    options.draft_schedule = DraftSchedule::kAll;
    EngineRun crowd(backend(), options);
    std::vector<std::pair<EngineRequest, RequestId>> asked;
    for (int r = 0; r < kRequests; ++r) {
      EngineRequest request;
      request.prompt = greedy_goldens()[random() % greedy_goldens().size()].ids;
      request.params = greedy_params(20 + static_cast<int64_t>(random() % 40), static_cast<int32_t>(random() % 6));
      request.params.temperature = random() % 3 == 0 ? 0.0F : 1.0F;
      request.params.seed = random();
      request.params.logprobs = 1;
      if (random() % 8 != 0) request.grammar = specs[random() % specs.size()];
      const auto id = crowd.submit(request);
      ASSERT_TRUE(id.ok()) << id.status().message();
      asked.emplace_back(std::move(request), *id);
    }
    crowd.drain();
    for (auto& [request, id] : asked) {
      request.params.draft_tokens = 0;
      const RequestId solo = alone.submit(request).value();
      alone.drain();
      const std::string what = "schedule " + std::to_string(schedule) + ", request " + std::to_string(id);
      const Status& failure = crowd.seen(id).ends.at(0).failure;
      EXPECT_TRUE(failure.ok()) << what << ": " << failure.message();
      expect_same_tokens(crowd.seen(id).tokens, alone.seen(solo).tokens, what);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace deepinfer
