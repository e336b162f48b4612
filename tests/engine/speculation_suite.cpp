// Drafts change the speed and nothing else: every draft depth gives the tokens and log-probabilities of none.
#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

std::vector<int32_t> prompt_named(const std::string& name) {
  for (const GreedyGolden& golden : greedy_goldens()) {
    if (golden.name == name) return golden.ids;
  }
  DI_CHECK(false, "no prompt " + name);
}

void expect_depths_agree(Generator& generator, const std::vector<int32_t>& prompt, GenerationParams params,
                         const std::string& what) {
  params.draft_tokens = 0;
  const GenerationResult plain = generate(generator, prompt, params);
  EXPECT_EQ(plain.drafted, 0);
  for (int depth = 1; depth <= 5; ++depth) {
    params.draft_tokens = depth;
    const GenerationResult result = generate(generator, prompt, params);
    expect_same_answer(result, plain, what + ", depth " + std::to_string(depth));
    EXPECT_LE(result.rounds, plain.rounds);
    EXPECT_LE(result.drafted, result.rounds * depth);
  }
}

TEST_P(Speculation, EveryDepthGivesThePlainGreedyAnswer) {
  const auto generator = open_generator(GetParam().backend);
  expect_depths_agree(*generator, prompt_named("chat"), greedy_params(24, 0), "chat");
  const std::vector<std::string> more[] = {
      {}, {"count"}, {"thinking", "tool_call", "count", "story", "unseen_tool", "lines"}};
  for (const std::string& name : more[GetParam().effort])
    expect_depths_agree(*generator, prompt_named(name), greedy_params(48, 0), name);
}

TEST_P(Speculation, EveryDepthGivesThePlainSeededAnswer) {
  const auto generator = open_generator(GetParam().backend);
  GenerationParams params = greedy_params((GetParam().effort > 0) ? 40 : 10, 0);
  params.temperature = 1;
  params.seed = 7;
  expect_depths_agree(*generator, prompt_named("story"), params, "temperature 1");
  if (GetParam().effort == 0) return;
  params.temperature = 1.4f;
  params.top_k = 50;
  params.top_p = 0.9f;
  params.min_p = 0.02f;
  params.seed = uint64_t{1} << 63;
  params.raw_logprobs = true;
  expect_depths_agree(*generator, prompt_named("story"), params, "filters");
}

TEST_P(Speculation, EveryDepthGivesThePlainAnswerWithPenalties) {
  const auto generator = open_generator(GetParam().backend);
  GenerationParams params = greedy_params((GetParam().effort > 0) ? 40 : 10, 0);
  params.repetition_penalty = 1.3f;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.7f;
  params.logit_bias = {{313, -4.0f}, {654, 3.0f}};
  expect_depths_agree(*generator, prompt_named("count"), params, "greedy with penalties");
  params.temperature = 0.8f;
  params.top_p = 0.95f;
  params.seed = 3;
  expect_depths_agree(*generator, prompt_named("count"), params, "seeded with penalties");
}

TEST_P(Speculation, SeedsAndPositionsDecideTheChoice) {
  const auto generator = open_generator(GetParam().backend);
  GenerationParams params = greedy_params(8, 5);
  params.temperature = 6;  // the model is sure of itself
  params.seed = 1;
  const auto prompt = prompt_named("story");
  const auto first = generate(*generator, prompt, params);
  expect_same_answer(generate(*generator, prompt, params), first, "the same seed");
  params.seed = 2;
  EXPECT_NE(tokens_of(generate(*generator, prompt, params)), tokens_of(first));
}

}  // namespace
}  // namespace deepinfer
