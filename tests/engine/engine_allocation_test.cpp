// Memory is set aside when the generator opens and when a request begins: its tokens allocate nothing, whatever it asks
// for and however long it gets.
#include <gtest/gtest.h>

#include "backends/cpu_backends.h"
#include "base/allocation_count.h"
#include "engine/generator_suite.h"
#include "engine/token_counts.h"

namespace deepinfer {
namespace {

GenerationParams asked_for(float temperature, float penalty, int drafts) {
  GenerationParams params;
  params.temperature = temperature;
  params.repetition_penalty = penalty;
  params.frequency_penalty = penalty == 1 ? 0 : 0.5f;
  params.logit_bias = {{313, 1.5f}};
  params.seed = 5;
  params.logprobs = 0;
  params.top_p = 0.95f;
  params.draft_tokens = drafts;
  params.max_tokens = 300;  // more than two cache blocks
  return params;
}

TEST(Allocation, TokensAllocateNothing) {
  const CpuIsa best = machine_paths().back();
  const auto generator = open_generator({"cpu", [best] { return make_cpu_path(best, 2); }});
  const std::vector<int32_t> prompt{0, 4, 2295, 23, 5, 7};
  for (const GenerationParams& params :
       {asked_for(0, 1, 5), asked_for(0, 1, 0), asked_for(0.8f, 1, 5), asked_for(0, 1.2f, 5), asked_for(1, 1.2f, 0)}) {
    int64_t first = -1;
    int64_t last = -1;
    const auto result = generator->generate(prompt, params, [&](std::span<const GeneratedToken>) {
      last = allocation_count();
      if (first < 0) first = last;
      return true;
    });
    ASSERT_TRUE(result.ok()) << result.status().message();
    ASSERT_EQ(result->tokens.size(), 300u);
    EXPECT_EQ(last - first, 0) << "temperature " << params.temperature << ", penalty " << params.repetition_penalty
                               << ", drafts " << params.draft_tokens;
  }
}

TEST(Allocation, CountsStayWithinWhatWasReserved) {
  TokenCounts counts;
  counts.reserve(1000);
  const int64_t before = allocation_count();
  for (int32_t token = 0; token < 1000; ++token) {
    counts.add_output(token * 129);
    counts.add_output(token * 129);
  }
  EXPECT_EQ(allocation_count() - before, 0);
  ASSERT_EQ(counts.list().size(), 1000u);
  for (int32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(counts.list()[static_cast<size_t>(i)].token, i * 129);
    EXPECT_EQ(counts.list()[static_cast<size_t>(i)].in_output, 2);
  }
  for (int32_t token = 0; token < 5000; ++token) counts.add_prompt(std::span(&token, 1));  // beyond it they grow
  EXPECT_EQ(counts.list().size(), 1000u + 5000u - 39u);                                    // 39 multiples below 5000
}

}  // namespace
}  // namespace deepinfer
