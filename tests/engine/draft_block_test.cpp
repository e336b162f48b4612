// Draft blocks of other lengths than the demonstration model's: what a configuration says is drawn, any part of it is
// verified, and answers are those of no drafts.  More than the block is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "backends/cpu_backends.h"
#include "engine/delegating_model.h"
#include "engine/engine_run.h"
#include "engine/generator_suite.h"
#include "engine/model_tokens.h"
#include "models/golden_prompts.h"
#include "models/open_model.h"
#include "models/synthetic_model.h"
#include "models/test_configs.h"

namespace deepinfer {
namespace {

const OpsBackend kCpu{"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }};

EngineOptions engine_on(const std::filesystem::path& model, DraftSchedule schedule) {
  EngineOptions options;
  options.model = model;
  options.max_context = 1024;
  options.cache_bytes = 16 << 20;
  options.max_sequences = 4;  // fewer than requests
  options.draft_schedule = schedule;
  return options;
}

std::unique_ptr<Generator> generator_on(const std::filesystem::path& model) {
  GeneratorOptions options;
  options.model = model;
  options.max_context = 1024;
  return Generator::open(options, kCpu.make()).value();
}

// Drafts that are right, in place of those that a model draws: of a prompt whose answer is known.
class KnowingDrafts final : public DelegatingModel {
 public:
  KnowingDrafts(std::unique_ptr<Model> model, std::vector<int32_t> text)
      : DelegatingModel(std::move(model)), text_(std::move(text)) {}

  DraftResult draft(std::span<const DraftSequence> sequences) override {
    const DraftResult drawn = DelegatingModel::draft(sequences);
    const int64_t block = drawn.tokens.columns;
    tokens_.assign(static_cast<size_t>(drawn.tokens.rows * block), 3);
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (int64_t i = 0; i < block; ++i) {
        const auto place = static_cast<size_t>(sequences[s].position + 1 + i);
        if (place < text_.size()) tokens_[s * static_cast<size_t>(block) + static_cast<size_t>(i)] = text_[place];
      }
    }
    DraftResult known = drawn;
    known.tokens = {tokens_.data(), drawn.tokens.rows, block};
    return known;
  }

 private:
  std::vector<int32_t> text_, tokens_;  // prompt and answer; [sequences, block]
};

// The demonstration model, whose draft was trained for blocks of five, told to draw eight.
class EightDrafts : public testing::Test {
 protected:
  EightDrafts() {
    namespace fs = std::filesystem;
    for (const auto& entry : fs::directory_iterator(DEEPINFER_TEST_MODEL)) {
      if (entry.path().filename() != "config.json")
        fs::create_symlink(entry.path(), folder / entry.path().filename().string());
    }
    nlohmann::json config = demonstration_json();
    config["text_config"]["dspark_block_size"] = 8;
    folder.write("config.json", config.dump());
  }

  TemporaryFolder folder;
};

TEST_F(EightDrafts, EveryLengthGivesTheAnswerWithoutDrafts) {
  std::vector<EngineRequest> asked;
  for (const GreedyGolden& golden : greedy_goldens()) {
    if (golden.name != "count" && golden.name != "lines") continue;
    for (int32_t length = -1; length <= 8; ++length) {
      EngineRequest& request = asked.emplace_back();
      request.prompt = golden.ids;
      request.params = greedy_params(40, length);
      if (golden.name == "lines") {
        request.params.temperature = 1;
        request.params.seed = 7;
      }
    }
  }
  ASSERT_EQ(asked.size(), 20U);
  std::vector<std::vector<GeneratedToken>> want;
  const auto solo = generator_on(folder.path());
  for (const size_t first : {size_t{0}, size_t{10}}) {
    GenerationParams params = asked[first].params;
    params.draft_tokens = 0;
    want.push_back(generate(*solo, asked[first].prompt, params).tokens);
  }
  for (const DraftSchedule schedule : {DraftSchedule::kAll, DraftSchedule::kFresh}) {
    EngineRun run(kCpu, engine_on(folder.path(), schedule));
    std::vector<RequestId> ids;
    for (const EngineRequest& request : asked) ids.push_back(run.submit(request).value());
    run.drain();
    for (size_t i = 0; i < ids.size(); ++i) {
      const RequestSummary& end = run.seen(ids[i]).ends.at(0);
      expect_same_tokens(run.seen(ids[i]).tokens, want[i / 10],
                         "length " + std::to_string(asked[i].params.draft_tokens));
      const int64_t limit = asked[i].params.draft_tokens < 0 ? 8 : asked[i].params.draft_tokens;
      EXPECT_LE(end.drafted, limit * end.rounds);
    }
  }
}

TEST_F(EightDrafts, EightThatComeTrueBringNineTokensARound) {
  EngineRequest request;
  request.prompt = greedy_goldens().at(0).ids;
  request.params = greedy_params(46, 0);
  request.params.stop_tokens.clear();
  const std::vector<GeneratedToken> want =
      generate(*generator_on(folder.path()), request.prompt, request.params).tokens;
  std::vector<int32_t> text = request.prompt;
  for (const GeneratedToken& token : want) text.push_back(token.token);
  EngineOptions options = engine_on(folder.path(), DraftSchedule::kAll);
  options.make_model = [&](const StepLimits& limits, Ops& ops) -> Result<std::unique_ptr<Model>> {
    ModelOptions wanted;
    wanted.folder = folder.path();
    wanted.limits = limits;
    wanted.tokens = [&] { return load_model_tokens(folder.path()); };
    DI_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, open_model(wanted, ops));
    return std::unique_ptr<Model>(std::make_unique<KnowingDrafts>(std::move(model), text));
  };
  EngineRun run(kCpu, options);
  for (int32_t length = 0; length <= 8; ++length) {
    request.params.draft_tokens = length;
    request.use_prefix_cache = length % 2 == 0;
    const RequestId id = run.submit(request).value();
    run.drain();
    expect_same_tokens(run.seen(id).tokens, want, "length " + std::to_string(length));
    const RequestSummary& end = run.seen(id).ends.at(0);
    EXPECT_EQ(end.rounds, (45 + length) / (1 + length)) << "45 tokens behind the first, length " << length;
    EXPECT_EQ(end.accepted, end.drafted);
  }
}

TEST_F(EightDrafts, TheGeneratorVerifiesEveryLengthToo) {
  const auto generator = generator_on(folder.path());
  for (const GreedyGolden& golden : greedy_goldens()) {
    if (golden.name != "count") continue;
    const GenerationResult plain = generate(*generator, golden.ids, greedy_params(40, 0));
    for (int32_t length = -1; length <= 8; ++length)
      expect_same_answer(generate(*generator, golden.ids, greedy_params(40, length)), plain,
                         "length " + std::to_string(length));
  }
}

TEST_F(EightDrafts, RejectionSamplingIsTheSameInCompany) {
  std::vector<EngineRequest> asked;
  for (const GreedyGolden& golden : greedy_goldens()) {
    if (golden.name != "story") continue;
    for (int32_t length = 1; length <= 8; ++length) {
      EngineRequest& request = asked.emplace_back();
      request.prompt = golden.ids;
      request.params = greedy_params(24, length);
      request.params.temperature = 1;
      request.params.seed = 3;
      request.params.speculative_sampling = SpeculativeSampling::kRejection;
    }
  }
  const auto solo = generator_on(folder.path());
  EngineOptions options = engine_on(folder.path(), DraftSchedule::kFresh);
  options.step_rows = 24;  // not room for all drafts
  EngineRun run(kCpu, options);
  std::vector<RequestId> ids;
  for (const EngineRequest& request : asked) ids.push_back(run.submit(request).value());
  run.drain();
  for (size_t i = 0; i < ids.size(); ++i)
    expect_same_tokens(run.seen(ids[i]).tokens, generate(*solo, asked[i].prompt, asked[i].params).tokens,
                       "length " + std::to_string(i + 1));
}

TEST_F(EightDrafts, MoreThanTheBlockIsRefused) {
  EngineRun run(kCpu, engine_on(folder.path(), DraftSchedule::kAll));
  EngineRequest request;
  request.prompt = {3, 4, 5};
  request.params = greedy_params(4, 9);
  const auto refused = run.submit(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().message(), "draft_tokens is 9; allowed: -1 to 8, the model's draft block");
}

// Random weights, whose drafts are never right: what matters is that rows and rings have room for the longest block.
// The pool holds little, so that sequences are preempted and go on from snapshots.
TEST(DraftBlocks, FromOneToTheLongestLeaveTheAnswerAlone) {
  for (const int block : {1, 8, 64}) {
    const TemporaryFolder folder;
    write_synthetic_model(folder, synthetic_config({{"dspark_block_size", block}}), 11);
    std::vector<EngineRequest> asked;
    for (int r = 0; r < 6; ++r) {
      EngineRequest& request = asked.emplace_back();
      for (int i = 0; i < 100 + 40 * r; ++i) request.prompt.push_back(3 + (i * 7 + r * 13 + i / 5) % 400);
      request.params = greedy_params(60, r == 0 ? block : r == 1 ? 0 : r == 2 ? (block + 1) / 2 : -1);
      request.params.stop_tokens.clear();
    }
    asked.push_back(asked.back());
    const auto solo = generator_on(folder.path());
    EngineOptions options = engine_on(folder.path(), DraftSchedule::kAll);
    options.cache_bytes = 3 << 20;
    EngineRun run(kCpu, options);
    std::vector<RequestId> ids;
    for (const EngineRequest& request : asked) ids.push_back(run.submit(request).value());
    run.drain();
    for (size_t i = 0; i < ids.size(); ++i) {
      GenerationParams params = asked[i].params;
      params.draft_tokens = i % 2 == 0 ? 0 : -1;
      expect_same_tokens(run.seen(ids[i]).tokens, generate(*solo, asked[i].prompt, params).tokens,
                         "block " + std::to_string(block) + ", request " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace deepinfer
