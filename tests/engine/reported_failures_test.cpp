// Small inputs that have broken other engines, as whole kinds: hostile numbers and ids, company, repeated prompts on a
// cache, every draft depth, prompt log-probabilities in chunks, prompts that cannot fit, and clients that leave.  Each
// time the offender gets one clear error, and everybody else the bits that it has alone.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

const OpsBackend kBackend{"cpu", [] { return make_cpu_path(machine_paths().back(), 2); }};

std::vector<int32_t> text(int64_t first, int64_t length) {
  static const std::vector<int32_t> all = ForwardGolden("recall").ids();
  return {all.begin() + first, all.begin() + first + length};
}

EngineRequest greedy(std::vector<int32_t> prompt, int64_t tokens = 6) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.params = greedy_params(tokens, 0);
  request.params.stop_tokens.clear();
  request.params.logprobs = 2;
  return request;
}

EngineOptions options(int64_t step_rows = 512) {
  EngineOptions options;
  options.max_context = 1024;
  options.cache_bytes = 24 << 20;
  options.max_sequences = 20;
  options.step_rows = std::max<int64_t>(step_rows, options.max_sequences);
  options.draft_schedule = DraftSchedule::kAll;  // every draft, and no measurement at the start
  return options;
}

class ReportedFailures : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    GeneratorOptions options;
    options.max_context = 1024;
    solo_ = open_generator(kBackend, options).release();
  }
  static void TearDownTestSuite() { delete std::exchange(solo_, nullptr); }

  static std::vector<GeneratedToken> alone(const EngineRequest& request) {
    GenerationParams params = request.params;
    params.draft_tokens = 0;
    return generate(*solo_, request.prompt, params).tokens;
  }
  static RequestId submit(EngineRun& engine, const EngineRequest& request) {
    const auto id = engine.submit(request);
    DI_CHECK(id.ok(), id.status().message());
    return *id;
  }

  static inline Generator* solo_ = nullptr;
};

TEST_F(ReportedFailures, NumbersOutOfRangeAreRefusedByFieldAndOthersGoOn) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  EngineRun engine(kBackend, options());
  const EngineRequest other = greedy(text(0, 40), 30);
  const RequestId running = submit(engine, other);
  const auto refused = [&](const char* field, const std::function<void(EngineRequest&)>& change) {
    EngineRequest request = greedy(text(0, 40));
    change(request);
    const auto id = engine.submit(request);
    ASSERT_FALSE(id.ok()) << field;
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(id.status().message().find(field), std::string::npos) << id.status().message();
    EXPECT_NE(id.status().message().find("allowed: "), std::string::npos) << id.status().message();
  };
  struct Field {
    const char* name;
    float GenerationParams::*value;
    std::vector<float> wrong;
  };
  const std::vector<Field> fields = {
      {"temperature", &GenerationParams::temperature, {-0.1F, -1e-30F}},
      {"top_p", &GenerationParams::top_p, {0, -0.0F, 1.0001F, -1}},
      {"min_p", &GenerationParams::min_p, {-1e-30F, 1.0001F}},
      {"repetition_penalty", &GenerationParams::repetition_penalty, {0, -0.0F, -1, 1e-40F, 1e30F}},
      {"presence_penalty", &GenerationParams::presence_penalty, {-2.001F, 2.001F}},
      {"frequency_penalty", &GenerationParams::frequency_penalty, {-2.001F, 2.001F}},
  };
  for (const Field& field : fields) {
    std::vector<float> wrong = field.wrong;
    wrong.insert(wrong.end(), {kNan, -kNan, kInf, -kInf});
    for (const float value : wrong) refused(field.name, [&](EngineRequest& r) { r.params.*field.value = value; });
  }
  refused("top_k", [](EngineRequest& r) { r.params.top_k = -1; });
  for (const int64_t tokens : {int64_t{-1}, std::numeric_limits<int64_t>::min()})
    refused("max_tokens", [&](EngineRequest& r) { r.params.max_tokens = tokens; });
  for (const float bias : {kNan, kInf, -kInf, 1e30F})
    refused("logit_bias", [&](EngineRequest& r) { r.params.logit_bias = {{5, bias}}; });
  engine.drain();
  expect_same_tokens(engine.seen(running).tokens, alone(other), "beside refused ones");
  // What is odd and in range is served.
  EngineRequest odd = greedy(text(0, 40));
  odd.params.temperature = 1e-40F;
  odd.params.top_p = 1e-40F;
  odd.params.min_p = -0.0F;
  odd.params.max_tokens = std::numeric_limits<int64_t>::max();
  odd.prompt = text(0, 1000);
  const RequestId id = submit(engine, odd);
  engine.drain();
  EXPECT_EQ(engine.seen(id).ends.at(0).reason, EndReason::kLength);
  EXPECT_EQ(engine.seen(id).tokens.size(), 24U);
}

TEST_F(ReportedFailures, IdsOutOfTheVocabularyAreRefusedAndOthersGoOn) {
  EngineRun engine(kBackend, options());
  const EngineRequest other = greedy(text(0, 60), 30);
  const RequestId running = submit(engine, other);
  const int32_t vocabulary = engine.engine().vocabulary();
  for (const int32_t id :
       {-1, -2, vocabulary, 99'999'999, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    const auto refused = [&](const char* field, const std::function<void(EngineRequest&)>& change) {
      EngineRequest request = greedy(text(0, 40));
      change(request);
      const auto submitted = engine.submit(request);
      ASSERT_FALSE(submitted.ok()) << field << " " << id;
      EXPECT_NE(submitted.status().message().find(field), std::string::npos) << submitted.status().message();
      EXPECT_NE(submitted.status().message().find(std::to_string(vocabulary - 1)), std::string::npos);
    };
    refused("prompt", [&](EngineRequest& r) { r.prompt.push_back(id); });
    refused("logit_bias", [&](EngineRequest& r) { r.params.logit_bias = {{id, 5}}; });
    refused("stop_tokens", [&](EngineRequest& r) { r.params.stop_tokens = {id}; });
    refused("allowed_tokens", [&](EngineRequest& r) { r.allowed_tokens = {3, id}; });
    refused("bad_words", [&](EngineRequest& r) { r.bad_words = {{3, id}}; });
    if (id != -1) refused("forced_tokens", [&](EngineRequest& r) { r.forced_tokens = {id}; });
  }
  engine.drain();
  expect_same_tokens(engine.seen(running).tokens, alone(other), "beside refused ones");
}

TEST_F(ReportedFailures, AnAnswerIsTheSameAloneAndBesideAnyNumberOfOthersInAnyChunks) {
  const EngineRequest asked = greedy(text(0, 150));
  const std::vector<GeneratedToken> want = alone(asked);
  for (const int64_t rows : {20, 33, 64, 128, 512}) {
    EngineRun engine(kBackend, options(rows));
    for (const int others : {0, 1, 2, 5, 19}) {
      std::vector<RequestId> ids;
      for (int i = 0; i < others; ++i) {
        EngineRequest other = greedy(text(10 * i, 20 + 7 * i), 4);
        other.use_prefix_cache = false;
        submit(engine, other);
        if (i == others / 2) ids.push_back(submit(engine, asked));
      }
      EngineRequest fresh = asked;
      fresh.use_prefix_cache = false;
      ids.push_back(submit(engine, fresh));
      engine.drain();
      for (const RequestId id : ids)
        expect_same_tokens(engine.seen(id).tokens, want,
                           std::to_string(rows) + " rows, beside " + std::to_string(others));
    }
  }
}

TEST_F(ReportedFailures, ASeededAnswerDoesNotDependOnNeighboursOrTheirSeeds) {
  EngineRequest seeded = greedy(text(0, 50), 20);
  seeded.params.temperature = 1;
  seeded.params.seed = 42;
  const std::vector<GeneratedToken> want = alone(seeded);
  EngineRun engine(kBackend, options());
  for (const uint64_t neighbour : {uint64_t{0}, uint64_t{42}, ~uint64_t{0}}) {
    for (const bool first : {false, true}) {
      EngineRequest other = greedy(text(3, 50), 20);
      other.params.temperature = 1;
      other.params.seed = neighbour;
      if (!first) submit(engine, other);
      const RequestId id = submit(engine, seeded);
      if (first) submit(engine, other);
      engine.drain();
      expect_same_tokens(engine.seen(id).tokens, want, "beside seed " + std::to_string(neighbour));
    }
  }
}

TEST_F(ReportedFailures, ARepeatedPromptHasItsBitsFromTheCacheToo) {
  EngineRun engine(kBackend, options());
  for (const int64_t tokens : {128, 129, 130, 255, 256, 257, 300, 384, 400}) {
    const EngineRequest asked = greedy(text(0, tokens));
    const std::vector<GeneratedToken> want = alone(asked);
    EngineRequest first = asked;
    first.cache_salt = static_cast<uint64_t>(tokens);
    for (int i = 0; i < 3; ++i) {
      submit(engine, greedy(text(400, 200 + i)));  // another's rings in between
      const RequestId id = submit(engine, first);
      engine.drain();
      expect_same_tokens(engine.seen(id).tokens, want, std::to_string(tokens) + " tokens, time " + std::to_string(i));
      if (i > 0 && tokens > 128) {
        EXPECT_GT(engine.seen(id).ends.at(0).cached_tokens, 0) << tokens;
      }
    }
  }
}

TEST_F(ReportedFailures, EveryDraftDepthGivesTheAnswerWithoutDrafts) {
  EngineRequest asked = greedy(text(0, 200), 40);
  const std::vector<GeneratedToken> want = alone(asked);
  EngineRun engine(kBackend, options());
  std::vector<RequestId> ids;
  for (int32_t depth = 0; depth <= 5; ++depth) {
    asked.params.draft_tokens = depth;
    ids.push_back(submit(engine, asked));
  }
  engine.drain();
  for (const RequestId id : ids) expect_same_tokens(engine.seen(id).tokens, want, "request " + std::to_string(id));
  asked.params.draft_tokens = 1000;
  EXPECT_FALSE(engine.submit(asked).ok());
}

TEST_F(ReportedFailures, PromptLogprobsAreTheSameInChunksWithDraftsAndCompany) {
  EngineRequest asked = greedy(text(0, 300), 12);
  asked.prompt_logprobs = 1;
  std::vector<GeneratedToken> prompt, answer;
  for (const int64_t rows : {512, 20, 77}) {
    for (const int32_t drafts : {0, 5}) {
      EngineRun engine(kBackend, options(rows));
      asked.params.draft_tokens = drafts;
      submit(engine, greedy(text(5, 100), 20));
      const RequestId id = submit(engine, asked);
      EngineRequest other = asked;
      other.prompt = text(20, 250);
      submit(engine, other);
      engine.drain();
      const SeenRequest& seen = engine.seen(id);
      ASSERT_EQ(seen.prompt_logprobs.size(), 299U);
      for (const GeneratedToken& token : seen.prompt_logprobs) EXPECT_LT(token.logprob, 0);
      if (prompt.empty()) {
        prompt = seen.prompt_logprobs;
        answer = seen.tokens;
      }
      const std::string what = std::to_string(rows) + " rows, " + std::to_string(drafts) + " drafts";
      expect_same_tokens(seen.prompt_logprobs, prompt, what);
      expect_same_tokens(seen.tokens, answer, what);
    }
  }
  expect_same_tokens(answer, alone(asked), "without prompt logprobs");
}

TEST_F(ReportedFailures, APromptThatThePoolCannotHoldIsRefusedAndTheQueueMoves) {
  EngineOptions small = options();
  small.max_context = 0;
  small.cache_bytes = 4 * 128 * 534;
  EngineRun engine(kBackend, small);
  const int64_t most = engine.engine().max_context();
  EXPECT_EQ(most, 4 * 128);
  const EngineRequest before = greedy(text(0, 100), 20), after = greedy(text(7, 100), 20);
  const RequestId first = submit(engine, before);
  for (const int64_t tokens : {most, most + 1, 2 * most}) {
    const auto refused = engine.submit(greedy(text(0, tokens)));
    ASSERT_FALSE(refused.ok());
    const std::string message = refused.status().message();
    EXPECT_NE(message.find(std::to_string(tokens) + " tokens"), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(most)), std::string::npos) << message;
  }
  const RequestId last = submit(engine, after);
  const RequestId longest = submit(engine, greedy(text(0, most - 1), 1000));
  engine.drain();
  expect_same_tokens(engine.seen(first).tokens, alone(before), "before");
  expect_same_tokens(engine.seen(last).tokens, alone(after), "after");
  EXPECT_EQ(engine.seen(longest).tokens.size(), 1U);
}

TEST_F(ReportedFailures, AClientThatLeavesDuringItsPromptLeavesNothingBehind) {
  EngineRun engine(kBackend, options(20));  // 50 chunks
  const EngineRequest other = greedy(text(9, 30), 40);
  const RequestId running = submit(engine, other);
  for (int i = 0; i < 6; ++i) {
    EngineRequest leaving = greedy(text(0, 1000));
    const RequestId id = submit(engine, leaving);
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));
    engine.engine().cancel(id);
    engine.engine().cancel(id);
  }
  engine.drain();
  expect_same_tokens(engine.seen(running).tokens, alone(other), "beside clients that left");
  // One more finds nothing that was not written, and the engine has let go of everything.
  const EngineRequest again = greedy(text(0, 300));
  const RequestId id = submit(engine, again);
  engine.drain();
  expect_same_tokens(engine.seen(id).tokens, alone(again), "again");
  const SchedulerStats stats = engine.engine().stats().scheduler;
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.submitted, stats.ended);
}

}  // namespace
}  // namespace deepinfer
