// A generator over an engine answers as the plain generator does.
#include "engine/engine_generator.h"

#include <gtest/gtest.h>

#include "backends/cpu_backends.h"
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

const OpsBackend kBackend{"cpu", [] { return make_cpu_path(machine_paths().back(), 2); }};

std::unique_ptr<Generator> over_engine() {
  EngineOptions options;
  options.model = DEEPINFER_TEST_MODEL;
  options.max_context = 2048;
  options.max_sequences = 1;
  options.draft_schedule = DraftSchedule::kAll;
  auto engine = Engine::open(options, kBackend.make());
  DI_CHECK(engine.ok(), engine.status().message());
  return make_engine_generator(std::move(engine).value());
}

std::unique_ptr<Generator> plain() {
  GeneratorOptions options;
  options.max_context = 2048;
  return open_generator(kBackend, options);
}

TEST(EngineGenerator, AnswersAsThePlainGenerator) {
  const auto over = over_engine(), alone = plain();
  EXPECT_EQ(over->max_context(), alone->max_context());
  EXPECT_EQ(over->vocabulary(), alone->vocabulary());
  EXPECT_EQ(over->backend_name(), alone->backend_name());
  int prompts = 0;
  for (const GreedyGolden& golden : greedy_goldens()) {
    if (++prompts > 3) break;
    for (const int64_t most : {1, 20}) {
      GenerationParams params = greedy_params(most, -1);
      params.temperature = most == 1 ? 0.0F : 0.8F;
      const GenerationResult got = generate(*over, golden.ids, params), want = generate(*alone, golden.ids, params);
      expect_same_answer(got, want, golden.name);
      EXPECT_EQ(got.finish, want.finish);
      EXPECT_EQ(got.prompt_tokens, want.prompt_tokens);
    }
  }
}

TEST(EngineGenerator, GrammarsHoldBothAlike) {
  const auto over = over_engine(), alone = plain();
  const std::vector<int32_t> prompt = greedy_goldens().front().ids;
  GrammarSpec spec;
  spec.text = R"({"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","maxLength":9}},
                  "required":["n","s"]})";
  for (const SpeculativeSampling sampling : {SpeculativeSampling::kExact, SpeculativeSampling::kRejection}) {
    for (const float temperature : {0.0F, 1.5F}) {
      for (const int drafts : {0, 5}) {
        GenerationParams params = greedy_params(60, drafts);
        params.temperature = temperature;
        params.seed = 3;
        params.speculative_sampling = sampling;
        const auto answer = [&](Generator& generator) {
          return *generator.generate(prompt, params, &spec, [](auto) { return true; });
        };
        const GenerationResult got = answer(*over), want = answer(*alone);
        expect_same_answer(got, want, std::to_string(drafts));
        EXPECT_EQ(got.finish, want.finish);
        const auto held = tokens_of(want);
        EXPECT_NE(held, tokens_of(generate(*alone, prompt, params))) << "without the grammar";
        if (drafts == 0 || sampling == SpeculativeSampling::kRejection) continue;
        params.draft_tokens = 0;
        EXPECT_EQ(tokens_of(answer(*alone)), held);
      }
    }
  }
  spec.text = R"({"properties":{"a":{"not":{}}}})";
  for (Generator* generator : {over.get(), alone.get()}) {
    const auto refused = generator->generate(prompt, greedy_params(4, 0), &spec, [](auto) { return true; });
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
    EXPECT_NE(refused.status().message().find("/properties/a: the keyword not is not supported"), std::string::npos);
  }
}

TEST(EngineGenerator, EndsWhereItsConsumerHasEnough) {
  const auto over = over_engine(), alone = plain();
  const std::vector<int32_t> prompt = greedy_goldens().front().ids;
  GenerationParams params = greedy_params(30, -1);
  params.stop_tokens.clear();
  for (const size_t enough : {size_t{1}, size_t{5}, size_t{30}}) {
    const auto some = [&](Generator& generator) {
      size_t taken = 0;
      return *generator.generate(prompt, params, [&](std::span<const GeneratedToken> tokens) -> Taken {
        const size_t left = enough - taken;
        taken += std::min(left, tokens.size());
        return taken < enough ? Taken(true) : Taken::last(std::min(left, tokens.size()));
      });
    };
    const GenerationResult got = some(*over), want = some(*alone);
    expect_same_answer(got, want, std::to_string(enough));
    EXPECT_EQ(got.tokens.size(), enough);
    EXPECT_EQ(got.finish, want.finish) << enough;
  }
}

TEST(EngineGenerator, IsCancelled) {
  const auto over = over_engine();
  GenerationParams params = greedy_params(1500, -1);
  params.stop_tokens.clear();
  const auto result = over->generate(greedy_goldens().front().ids, params, [&](auto) {
    over->cancel();
    return true;
  });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish, FinishReason::kCancelled);
  EXPECT_LT(result->tokens.size(), 1500U);
}

TEST(EngineGenerator, SaysWhatIsWrong) {
  const auto over = over_engine(), alone = plain();
  const auto message = [](Generator& generator, std::vector<int32_t> prompt, GenerationParams params) {
    return generator.generate(prompt, params, [](auto) { return true; }).status().message();
  };
  GenerationParams params;
  EXPECT_EQ(message(*over, {}, params), message(*alone, {}, params));
  EXPECT_EQ(message(*over, std::vector<int32_t>(3000, 5), params),
            message(*alone, std::vector<int32_t>(3000, 5), params));
  params.top_p = 2;
  EXPECT_EQ(message(*over, {1, 2}, params), message(*alone, {1, 2}, params));
}

}  // namespace
}  // namespace deepinfer
