// Any single allocation may fail while a model opens or a request runs: the call returns kResourceExhausted, no
// exception comes out, and the generator answers the next request as before.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu_backends.h"
#include "base/allocation_count.h"
#include "engine/generator_suite.h"
#include "models/synthetic_model.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

// Calls attempt(), which returns a Status, with its nth allocation failing, for growing n, until it needs fewer.
// Returns the number of calls that failed; counts beyond the first 200 are sampled.
template <typename Attempt>
int64_t for_every_allocation(Attempt attempt) {
  int64_t failures = 0;
  for (int64_t nth = 0;; nth += nth < 200 ? 1 : 1 + nth / 12) {
    const FailedAllocation failed(nth);
    const Status status = attempt();
    if (!failed.happened()) return failures;
    // Work that can do without what it did not get may go on: hints, caches, threads.
    if (status.ok()) continue;
    ++failures;
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << "allocation " << nth << ": " << status.message();
  }
}

TEST(OutOfMemory, OpeningAModel) {
  const TemporaryFolder folder;
  write_synthetic_model(folder, synthetic_config(nlohmann::json::object()), 11);
  GeneratorOptions options;
  options.model = folder.path();
  options.max_context = 256;
  const int64_t failures = for_every_allocation([&] {
    std::unique_ptr<Ops> ops;
    try {
      ops = make_reference_ops();
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted, "the backend, which is not under test");
    }
    return Generator::open(options, std::move(ops)).status();
  });
  EXPECT_GT(failures, 150);
}

TEST(OutOfMemory, OpeningAModelWhoseTokenMapIsMade) {
  GeneratorOptions options;
  const TemporaryFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(DEEPINFER_TEST_MODEL)) {
    if (entry.path().filename() != "engram_token_map.json")
      std::filesystem::create_symlink(entry.path(), folder / entry.path().filename().string());
  }
  options.model = folder.path();
  options.max_context = 256;
  int64_t needed = allocation_count();
  ASSERT_TRUE(Generator::open(options, make_reference_ops()).ok());
  needed = allocation_count() - needed;
  for (int64_t nth = 10; nth < needed; nth += needed / 40) {
    auto ops = make_reference_ops();
    const FailedAllocation failed(nth);
    const Status status = Generator::open(options, std::move(ops)).status();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << nth << ": " << status.message();
    }
  }
}

TEST(OutOfMemory, ARequestFailsAndTheNextIsAnsweredAsBefore) {
  const TemporaryFolder folder;
  write_synthetic_model(folder, synthetic_config(nlohmann::json::object()), 11);
  GeneratorOptions options;
  options.model = folder.path();
  options.max_context = 256;
  const std::vector<int32_t> prompt{3, 40, 22, 23, 5, 8};
  GenerationParams params = greedy_params(12, 3);
  params.repetition_penalty = 1.1f;
  for (const bool reference : {true, false}) {
    const CpuIsa best = machine_paths().back();
    const auto generator = Generator::open(options, reference ? make_reference_ops() : make_cpu_path(best, 2)).value();
    const GenerationResult want = generate(*generator, prompt, params);
    std::vector<int32_t> longer = prompt;
    for (const GeneratedToken& token : want.tokens) longer.push_back(token.token);
    longer.push_back(9);
    const GenerationResult want_longer = generate(*generator, longer, params);
    // The reference allocates inside its operations: steps are cut off half done.
    const int64_t failures = for_every_allocation([&] {
      const Status status =
          generator->generate(prompt, params, [](std::span<const GeneratedToken>) { return true; }).status();
      return status;
    });
    EXPECT_GT(failures, 5);
    int64_t nth = 1;
    for (int round = 0; round < 12; ++round, nth += reference ? 97 : 1) {
      {
        const FailedAllocation failed(nth);
        (void)generator->generate(longer, params, [](std::span<const GeneratedToken>) { return true; });
      }
      expect_same_answer(generate(*generator, round % 2 == 0 ? longer : prompt, params),
                         round % 2 == 0 ? want_longer : want, "after a failed request");
    }
  }
}

TEST(OutOfMemory, TokenizingOnSeveralThreads) {
  const auto tokenizer = Tokenizer::load(std::filesystem::path(DEEPINFER_TEST_MODEL) / "tokenizer.json").value();
  std::string text;
  while (text.size() < (size_t{3} << 20)) text += "What is 3 + 4? " + std::to_string(text.size() * 7919) + "\n";
  std::vector<int32_t> want;
  ASSERT_TRUE(tokenizer->encode(text, want, 3).ok());
  std::vector<int32_t> ids{1, 2};
  int failures = 0;
  for (int64_t nth = 0; nth < 60; nth += 3) {
    ids.resize(2);
    ids.shrink_to_fit();
    const FailedAllocation failed(nth);
    const Status status = tokenizer->encode(text, ids, 3);
    if (status.ok()) continue;
    ++failures;
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
    EXPECT_EQ(ids, (std::vector<int32_t>{1, 2}));
  }
  EXPECT_GT(failures, 3);
  ids.clear();
  ASSERT_TRUE(tokenizer->encode(text, ids, 3).ok());
  EXPECT_EQ(ids, want);
}

}  // namespace
}  // namespace deepinfer
