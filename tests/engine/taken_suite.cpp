// A consumer that stops in the middle of the tokens of a step: result and sequence end with the last token it took.
#include <algorithm>

#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

std::vector<int32_t> count_prompt() {
  const auto goldens = greedy_goldens();
  return std::find_if(goldens.begin(), goldens.end(), [](const GreedyGolden& g) { return g.name == "count"; })->ids;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Stopped {
  GenerationResult result;
  std::vector<int32_t> given;  // all tokens that were delivered
  size_t group = 0;            // tokens of the delivery that was cut
};

// Takes `left_over` tokens fewer than given from the first delivery that has more than them; ends there.
Stopped stop_inside_a_group(Generator& generator, const std::vector<int32_t>& prompt, const GenerationParams& params,
                            size_t left_over) {
  Stopped stopped;
  generate(generator, {999}, greedy_params(1, 0));  // forgets what earlier calls left, and with it how long they were
  auto result = generator.generate(prompt, params, [&](std::span<const GeneratedToken> tokens) -> Taken {
    EXPECT_EQ(stopped.group, 0u) << "nothing is delivered after a stop";
    for (const GeneratedToken& token : tokens) stopped.given.push_back(token.token);
    if (tokens.size() <= left_over || tokens.size() < 3) return true;
    stopped.group = tokens.size();
    return Taken::last(tokens.size() - left_over);
  });
  DI_CHECK(result.ok(), result.status().message());
  stopped.result = std::move(result).value();
  return stopped;
}

// Whatever is asked next, the kept history is what a fresh generator makes of it.
TEST_P(TakenTokens, SequenceGoesOnFromTheLastTokenTaken) {
  const std::vector<int32_t> prompt = count_prompt();
  const auto generator = open_generator(GetParam().backend);
  GenerationParams params = greedy_params(24, 5);
  const std::vector<int32_t> whole = tokens_of(generate(*generator, prompt, params));
  const auto fresh = open_generator(GetParam().backend);
  for (size_t left_over = 0; left_over <= 5; ++left_over) {
    const Stopped stopped = stop_inside_a_group(*generator, prompt, params, left_over);
    if (stopped.group == 0) continue;  // no step of this answer decided as many
    const std::vector<int32_t> kept = tokens_of(stopped.result);
    ASSERT_EQ(kept.size(), stopped.given.size() - left_over);
    EXPECT_TRUE(std::equal(kept.begin(), kept.end(), whole.begin())) << "what was taken is the answer's beginning";
    EXPECT_EQ(stopped.result.finish, FinishReason::kStop);
    // The tokens that were not taken, others, and none but one.
    const std::vector<int32_t> rest(whole.begin() + static_cast<std::ptrdiff_t>(kept.size()), whole.end());
    for (const std::vector<int32_t>& next : {rest, std::vector<int32_t>{9, 5, 7}, std::vector<int32_t>{4}}) {
      if (next.empty()) continue;
      stop_inside_a_group(*generator, prompt, params, left_over);
      const std::vector<int32_t> history = joined(joined(prompt, kept), next);
      const GenerationResult got = generate(*generator, history, greedy_params(8, 5));
      const std::string what = std::to_string(left_over) + " left over, " + std::to_string(next.size()) + " new";
      // All kept tokens had been processed but, where none was left over, the last one.
      EXPECT_EQ(got.reused_tokens, static_cast<int64_t>(prompt.size() + kept.size()) - (left_over == 0 ? 1 : 0))
          << what;
      expect_same_answer(got, generate(*fresh, history, greedy_params(8, 0)), what);
    }
  }
}

TEST_P(TakenTokens, EndsAreNamedByWhatWasTaken) {
  const std::vector<int32_t> prompt = count_prompt();
  const auto generator = open_generator(GetParam().backend);
  GenerationParams params = greedy_params(24, 5);
  const std::vector<int32_t> whole = tokens_of(generate(*generator, prompt, params));
  // The first step that ends the answer by its length: all taken, all but one, none.
  const auto run = [&](auto take) {
    size_t before = 0;
    return generator
        ->generate(prompt, params,
                   [&](std::span<const GeneratedToken> tokens) -> Taken {
                     before += tokens.size();
                     return before < whole.size() ? Taken(true) : take(tokens.size());
                   })
        .value();
  };
  params.max_tokens = static_cast<int64_t>(whole.size());
  const FinishReason finish = generate(*generator, prompt, params).finish;
  EXPECT_EQ(run([](size_t) { return Taken(false); }).finish, finish);
  EXPECT_EQ(run([](size_t given) { return Taken::last(given); }).finish, finish);
  const GenerationResult cut = run([](size_t given) { return Taken::last(given - 1); });
  EXPECT_EQ(cut.finish, FinishReason::kStop);
  EXPECT_EQ(cut.tokens.size(), whole.size() - 1);
  const auto none = generator->generate(prompt, params, [](std::span<const GeneratedToken>) { return Taken::last(0); });
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->tokens.empty());
  EXPECT_EQ(none->finish, FinishReason::kStop);
  expect_same_answer(generate(*generator, prompt, params),
                     generate(*open_generator(GetParam().backend), prompt, params),
                     "after a consumer that took nothing");
}

}  // namespace
}  // namespace deepinfer
