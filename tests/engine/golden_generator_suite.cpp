// Recorded greedy answers, with and without drafts.
#include <algorithm>
#include <set>

#include "engine/generator_suite.h"
#include "models/golden_prompts.h"

namespace deepinfer {
namespace {

// Below this distance of the two best logits another order of summation may choose the other.
constexpr float kNearTie = 0.1f;

const std::set<std::string> kShort{"chat", "odd", "turns", "spell", "table", "after"};

void expect_golden(const std::vector<int32_t>& got, const GreedyGolden& golden) {
  for (size_t i = 0; i < golden.fresh.size(); ++i) {
    ASSERT_LT(i, got.size()) << golden.name;
    if (got[i] == golden.fresh[i]) continue;
    EXPECT_LT(golden.gaps[i], kNearTie) << golden.name << ": token " << i << " is " << got[i] << ", not "
                                        << golden.fresh[i];
    return;  // from a near-tie on the answers may differ
  }
  EXPECT_EQ(got.size(), golden.fresh.size()) << golden.name;
}

TEST_P(GoldenGenerator, GreedyAnswers) {
  const auto generator = open_generator(GetParam().backend);
  for (const GreedyGolden& golden : greedy_goldens()) {
    if (GetParam().effort == 0 && !kShort.contains(golden.name)) continue;
    expect_golden(tokens_of(generate(*generator, golden.ids, greedy_params(48, 0))), golden);
  }
}

TEST_P(GoldenGenerator, AnswersWithDrafts) {
  const auto generator = open_generator(GetParam().backend);
  const auto plain = greedy_goldens();
  int64_t rounds = 0, tokens = 0;
  for (GreedyGolden golden : dspark_goldens()) {
    if (GetParam().effort == 0 && !kShort.contains(golden.name)) continue;
    const auto same =
        std::find_if(plain.begin(), plain.end(), [&](const GreedyGolden& g) { return g.name == golden.name; });
    golden.gaps = same->gaps;
    const GenerationResult result = generate(*generator, golden.ids, greedy_params(48, 5));
    expect_golden(tokens_of(result), golden);
    rounds += result.rounds;
    tokens += static_cast<int64_t>(result.tokens.size()) - 1;
    EXPECT_LE(result.accepted, result.drafted);
  }
  // The goldens' rounds deliver 4.1 tokens on average; numbers of drafts near ties may move a little.
  EXPECT_GT(static_cast<double>(tokens) / static_cast<double>(rounds), 2.5);
}

// The needle is hundreds of tokens before the question, so row choice must reach back over every chunk border.
TEST_P(GoldenGenerator, NeedleInAnEarlierChunk) {
  const auto goldens = greedy_goldens();
  const std::string name = (GetParam().effort > 0) ? "medium_recall" : "short_recall";
  const GreedyGolden& golden =
      *std::find_if(goldens.begin(), goldens.end(), [&](const GreedyGolden& g) { return g.name == name; });
  GenerationResult whole;
  const std::vector<int64_t> sizes[] = {{512, 7}, {512, 1, 129}, {512, 1, 3, 7, 100, 127, 128, 129, 257}};
  for (const int64_t chunk : sizes[GetParam().effort]) {
    GeneratorOptions options;
    options.prefill_chunk = chunk;
    const auto generator = open_generator(GetParam().backend, options);
    GenerationResult result = generate(*generator, golden.ids, greedy_params(48, 5));
    if (chunk == 512) {
      expect_golden(tokens_of(result), golden);
      whole = std::move(result);
    } else {
      expect_same_answer(result, whole, "chunks of " + std::to_string(chunk));
    }
  }
}

TEST_P(GoldenGenerator, FullPrefillGivesTheSameBits) {
  const auto goldens = greedy_goldens();
  const std::string name = (GetParam().effort > 0) ? "medium_recall" : "letters";
  const GreedyGolden& golden =
      *std::find_if(goldens.begin(), goldens.end(), [&](const GreedyGolden& g) { return g.name == name; });
  GeneratorOptions full;
  full.prefill = PrefillMode::kFull;
  const auto a = open_generator(GetParam().backend);
  const auto b = open_generator(GetParam().backend, full);
  expect_same_answer(generate(*a, golden.ids, greedy_params(12, 5)), generate(*b, golden.ids, greedy_params(12, 5)),
                     name);
}

}  // namespace
}  // namespace deepinfer
