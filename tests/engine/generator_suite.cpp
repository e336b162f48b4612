#include "engine/generator_suite.h"

namespace deepinfer {

std::unique_ptr<Generator> open_generator(const OpsBackend& backend, GeneratorOptions options) {
  options.model = DEEPINFER_TEST_MODEL;
  if (options.max_context == 0) options.max_context = 4096;
  auto generator = Generator::open(options, backend.make());
  DI_CHECK(generator.ok(), generator.status().message());
  return std::move(generator).value();
}

GenerationResult generate(Generator& generator, const std::vector<int32_t>& prompt, const GenerationParams& params) {
  std::vector<int32_t> streamed;
  auto result = generator.generate(prompt, params, [&](std::span<const GeneratedToken> tokens) {
    EXPECT_FALSE(tokens.empty());
    for (const GeneratedToken& t : tokens) streamed.push_back(t.token);
    return true;
  });
  DI_CHECK(result.ok(), result.status().message());
  EXPECT_EQ(streamed, tokens_of(*result));
  return std::move(result).value();
}

std::vector<int32_t> tokens_of(const GenerationResult& result) {
  std::vector<int32_t> tokens;
  for (const GeneratedToken& t : result.tokens) tokens.push_back(t.token);
  return tokens;
}

void expect_same_answer(const GenerationResult& got, const GenerationResult& want, const std::string& what) {
  ASSERT_EQ(tokens_of(got), tokens_of(want)) << what;
  EXPECT_EQ(got.finish, want.finish) << what;
  for (size_t i = 0; i < got.tokens.size(); ++i) {
    const GeneratedToken& a = got.tokens[i];
    const GeneratedToken& b = want.tokens[i];
    EXPECT_EQ(a.position, b.position) << what;
    EXPECT_EQ(a.logprob, b.logprob) << what << ", token " << i;
    ASSERT_EQ(a.top_logprobs.size(), b.top_logprobs.size()) << what;
    for (size_t k = 0; k < a.top_logprobs.size(); ++k) {
      EXPECT_EQ(a.top_logprobs[k].token, b.top_logprobs[k].token) << what << ", token " << i;
      EXPECT_EQ(a.top_logprobs[k].logprob, b.top_logprobs[k].logprob) << what << ", token " << i;
    }
  }
}

GenerationParams greedy_params(int64_t most, int drafts) {
  GenerationParams params;
  params.temperature = 0;
  params.max_tokens = most;
  params.stop_tokens = {1};
  params.draft_tokens = drafts;
  params.logprobs = 2;
  return params;
}

}  // namespace deepinfer
