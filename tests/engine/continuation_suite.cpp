// A prompt that extends the previous call's sequence goes on from its state, and nobody can tell from the answer.
#include <algorithm>

#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

std::vector<int32_t> long_tokens(size_t count) {
  auto ids = ForwardGolden("recall").ids();
  ids.resize(count);
  return ids;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Fresh {
 public:
  explicit Fresh(const OpsBackend& backend, GeneratorOptions options = {}) : backend_(backend), options_(options) {}
  GenerationResult answer(const std::vector<int32_t>& prompt, const GenerationParams& params) const {
    return generate(*open_generator(backend_, options_), prompt, params);
  }

 private:
  OpsBackend backend_;
  GeneratorOptions options_;
};

TEST_P(Continuation, NextTurnOfAConversation) {
  const Fresh fresh(GetParam().backend);
  const auto generator = open_generator(GetParam().backend);
  std::vector<int32_t> prompt = long_tokens((GetParam().effort > 0) ? 430 : 60);
  for (int turn = 0; turn < 3; ++turn) {
    const int drafts = turn == 1 ? 0 : 5;  // drafts may be off for a while
    const GenerationResult got = generate(*generator, prompt, greedy_params(9, drafts));
    expect_same_answer(got, fresh.answer(prompt, greedy_params(9, drafts)), "turn " + std::to_string(turn));
    // All but the last token of the answer before, which had been chosen only.
    const auto added = turn == 2 ? 5 : 4;
    EXPECT_EQ(got.reused_tokens, turn == 0 ? 0 : static_cast<int64_t>(prompt.size()) - added - 1);
    // The whole answer, then odd and even numbers of new tokens.
    prompt = joined(joined(prompt, tokens_of(got)), {4, 2295, 5, 7});
    if (turn == 1) prompt.push_back(313);
  }
}

// The last token of an answer is chosen but not processed; later rows of the last round may have been rolled back.
TEST_P(Continuation, PromptThatLeavesTheAnswerNearItsEnd) {
  const Fresh fresh(GetParam().backend);
  const auto generator = open_generator(GetParam().backend);
  const std::vector<int32_t> prompt = long_tokens((GetParam().effort > 0) ? 300 : 40);
  const auto params = greedy_params(12, 5);
  const auto answer = tokens_of(generate(*generator, prompt, params));
  std::vector<size_t> kept_counts{answer.size(), answer.size() - 2};
  if (GetParam().effort > 0) kept_counts.insert(kept_counts.end(), {answer.size() - 1, answer.size() - 4, size_t{0}});
  for (const size_t kept : kept_counts) {
    generate(*generator, prompt, params);
    const auto next =
        joined(joined(prompt, {answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(kept)}), {9, 5, 7});
    const auto short_params = greedy_params(6, 5);
    const auto got = generate(*generator, next, short_params);
    expect_same_answer(got, fresh.answer(next, short_params), "kept " + std::to_string(kept));
    if (kept + 1 >= answer.size()) {
      EXPECT_EQ(got.reused_tokens, static_cast<int64_t>(prompt.size() + answer.size()) - 1);
    }
  }
}

TEST_P(Continuation, OtherPromptStartsAfresh) {
  const Fresh fresh(GetParam().backend);
  const auto generator = open_generator(GetParam().backend);
  const std::vector<int32_t> first = long_tokens(40);
  std::vector<int32_t> second = first;
  second[5] = 999;
  generate(*generator, first, greedy_params(8, 5));
  for (const auto& prompt : {second, std::vector<int32_t>{4}, first, first}) {
    const auto got = generate(*generator, prompt, greedy_params(8, 5));
    EXPECT_EQ(got.reused_tokens, 0);
    expect_same_answer(got, fresh.answer(prompt, greedy_params(8, 5)), "another prompt");
  }
}

TEST_P(Continuation, CancelledPrefillLeavesAGoodState) {
  const Fresh fresh(GetParam().backend);
  GeneratorOptions options;
  options.prefill_chunk = 16;
  const auto generator = open_generator(GetParam().backend, options);
  const auto prompt = long_tokens(64);
  // Cancelled from within the first delivery: ends before another round.
  const auto result = generator->generate(prompt, greedy_params(30, 5), [&](std::span<const GeneratedToken>) {
    generator->cancel();
    return true;
  });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish, FinishReason::kCancelled);
  EXPECT_EQ(result->tokens.size(), 1u);
  const auto next = joined(prompt, tokens_of(*result));
  const auto got = generate(*generator, next, greedy_params(8, 5));
  EXPECT_EQ(got.reused_tokens, 64);
  expect_same_answer(got, fresh.answer(next, greedy_params(8, 5)), "after a cancelled call");
}

TEST_P(Continuation, BoundedReplayIsRepeatable) {
  GeneratorOptions options;
  options.prefill = PrefillMode::kBoundedReplay;
  const Fresh fresh(GetParam().backend, options);
  const auto generator = open_generator(GetParam().backend, options);
  const auto prompt = long_tokens((GetParam().effort > 0) ? 400 : 150);
  const auto first = generate(*generator, prompt, greedy_params(9, 5));
  expect_same_answer(first, fresh.answer(prompt, greedy_params(9, 0)), "without drafts");
  const auto next = joined(joined(prompt, tokens_of(first)), {4, 2295, 5, 7});
  const auto got = generate(*generator, next, greedy_params(9, 5));
  EXPECT_EQ(got.reused_tokens, 0);  // its windows would be others
  expect_same_answer(got, fresh.answer(next, greedy_params(9, 5)), "the next turn");
}

}  // namespace
}  // namespace deepinfer
