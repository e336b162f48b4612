// Requests and options that are refused, how a generation ends, and the token map of a folder without one.
#include "engine/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/generator_suite.h"
#include "engine/model_tokens.h"
#include "models/deepseek_v41/engram_token_map.h"
#include "models/golden_prompts.h"
#include "tensor/sha256.h"
#include "tensor/temporary_folder.h"
#include "text/tokenizer_files.h"

namespace deepinfer {
namespace {

const OpsBackend kReference{"reference", make_reference_ops};
const std::vector<int32_t> kPrompt{0, 4, 2295, 23, 5, 7};

Status refusal(void (*edit)(GenerationParams&)) {
  GenerationParams params;
  edit(params);
  return validate(params, 4096);
}

TEST(GenerationParams, WrongValuesAreNamed) {
  EXPECT_TRUE(validate({}, 4096).ok());
  const std::pair<Status, const char*> cases[] = {
      {refusal([](GenerationParams& p) { p.temperature = -0.5f; }), "temperature is -0.5; allowed: numbers from 0"},
      {refusal([](GenerationParams& p) { p.temperature = std::nanf(""); }), "temperature is nan"},
      {refusal([](GenerationParams& p) { p.temperature = INFINITY; }), "temperature is inf"},
      {refusal([](GenerationParams& p) { p.top_p = 0; }), "top_p is 0; allowed: above 0, to 1"},
      {refusal([](GenerationParams& p) { p.top_p = std::nanf(""); }), "top_p is nan"},
      {refusal([](GenerationParams& p) { p.min_p = 1.5f; }), "min_p is 1.5; allowed: 0 to 1"},
      {refusal([](GenerationParams& p) { p.top_k = -1; }), "top_k is -1"},
      {refusal([](GenerationParams& p) { p.repetition_penalty = 0; }),
       "repetition_penalty is 0; allowed: 0.001 to 1000"},
      {refusal([](GenerationParams& p) { p.repetition_penalty = 1e-38f; }), "repetition_penalty is 1e-38"},
      {refusal([](GenerationParams& p) { p.repetition_penalty = 1001; }), "repetition_penalty is 1001"},
      {refusal([](GenerationParams& p) { p.presence_penalty = 2.5f; }), "presence_penalty is 2.5; allowed: -2 to 2"},
      {refusal([](GenerationParams& p) { p.frequency_penalty = std::nanf(""); }), "frequency_penalty is nan"},
      {refusal([](GenerationParams& p) { p.max_tokens = -1; }), "max_tokens is -1"},
      {refusal([](GenerationParams& p) { p.logprobs = -2; }), "logprobs is -2"},
      {refusal([](GenerationParams& p) { p.draft_tokens = -2; }), "draft_tokens is -2"},
      {refusal([](GenerationParams& p) {
         p.stop_tokens = {1, 4096};
       }),
       "stop_tokens holds token 4096; allowed: 0 to 4095"},
      {refusal([](GenerationParams& p) {
         p.logit_bias = {{-1, 5}};
       }),
       "logit_bias holds token -1"},
      {refusal([](GenerationParams& p) {
         p.logit_bias = {{99999999, 5}};
       }),
       "logit_bias holds token 99999999"},
      {refusal([](GenerationParams& p) {
         p.logit_bias = {{7, INFINITY}};
       }),
       "logit_bias of token 7 is inf; allowed: -1000000000 to 1000000000"},
      {refusal([](GenerationParams& p) {
         p.logit_bias = {{7, -2e9f}};
       }),
       "logit_bias of token 7 is -2000000000"},
      {refusal([](GenerationParams& p) {
         p.logit_bias = {{7, 1}, {8, 1}, {7, 2}};
       }),
       "logit_bias holds token 7 twice"},
  };
  for (const auto& [status, message] : cases) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

std::string request_error(Generator& generator, const std::vector<int32_t>& prompt,
                          const GenerationParams& params = {}) {
  const auto result = generator.generate(prompt, params, [](std::span<const GeneratedToken>) { return true; });
  return result.ok() ? "" : result.status().message();
}

TEST(Generator, WrongRequestsAreNamedAndChangeNothing) {
  GeneratorOptions options;
  options.max_context = 40;
  const auto generator = open_generator(kReference, options);
  const auto want = generate(*generator, kPrompt, greedy_params(6, 5));
  EXPECT_EQ(request_error(*generator, {}), "the prompt is empty; allowed: at least one token");
  EXPECT_EQ(request_error(*generator, {1, 4096}), "token 1 of the prompt is 4096; allowed: 0 to 4095");
  EXPECT_EQ(request_error(*generator, {-1}), "token 0 of the prompt is -1; allowed: 0 to 4095");
  EXPECT_EQ(request_error(*generator, std::vector<int32_t>(41, 5)),
            "the prompt has 41 tokens; allowed: at most 39, one below the context length of 40");
  GenerationParams deep;
  deep.draft_tokens = 6;
  EXPECT_EQ(request_error(*generator, {1}, deep), "draft_tokens is 6; allowed: -1 to 5, the model's draft block");
  expect_same_answer(generate(*generator, kPrompt, greedy_params(6, 5)), want, "after errors");
}

// Whatever validate() allows leaves every logit finite.
TEST(Generator, ExtremeParametersAlwaysDrawAToken) {
  GeneratorOptions options;
  options.max_context = 40;
  const auto generator = open_generator(kReference, options);
  for (const float temperature : {0.0f, 1e-5f, 1.0f, 3e38f}) {
    for (const float penalty : {kLeastRepetitionPenalty, kMostRepetitionPenalty}) {
      for (const float bias : {-kMostLogitBias, kMostLogitBias}) {
        GenerationParams params = greedy_params(2, 0);
        params.temperature = temperature;
        params.repetition_penalty = penalty;
        params.presence_penalty = bias > 0 ? -2 : 2;
        params.frequency_penalty = bias > 0 ? -2 : 2;
        params.logit_bias = {{kPrompt[2], bias}, {313, bias}};
        EXPECT_EQ(request_error(*generator, kPrompt, params), "") << temperature << ' ' << penalty << ' ' << bias;
      }
    }
  }
}

TEST(Generator, EndsAtLimitsStopsAndWishes) {
  GeneratorOptions options;
  options.max_context = 14;
  const auto generator = open_generator(kReference, options);
  GenerationParams params = greedy_params(0, 5);
  const auto full = generate(*generator, kPrompt, params);  // 6 + 8 = the context
  EXPECT_EQ(full.tokens.size(), 8u);
  EXPECT_EQ(full.finish, FinishReason::kLength);
  for (const int64_t most : {1, 2, 5, 7}) {
    params.max_tokens = most;
    const auto result = generate(*generator, kPrompt, params);
    EXPECT_EQ(result.finish, FinishReason::kLength);
    ASSERT_EQ(static_cast<int64_t>(result.tokens.size()), most);
    for (size_t i = 0; i < result.tokens.size(); ++i) EXPECT_EQ(result.tokens[i].logprob, full.tokens[i].logprob);
  }
  params.max_tokens = 0;
  params.stop_tokens = {999, full.tokens[4].token};
  const auto stopped = generate(*generator, kPrompt, params);
  EXPECT_EQ(stopped.finish, FinishReason::kStop);
  EXPECT_EQ(stopped.tokens.size(), 5u);  // the stop token is reported
  params.stop_tokens = {};
  int deliveries = 0;
  const auto wished =
      generator->generate(kPrompt, params, [&](std::span<const GeneratedToken>) { return ++deliveries < 2; });
  ASSERT_TRUE(wished.ok());
  EXPECT_EQ(deliveries, 2);
  EXPECT_EQ(wished->finish, FinishReason::kStop);
}

TEST(Generator, WrongOptionsAreNamed) {
  const auto error = [](GeneratorOptions options) {
    options.model = options.model.empty() ? std::filesystem::path(DEEPINFER_TEST_MODEL) : options.model;
    const auto result = Generator::open(options, make_reference_ops());
    return result.ok() ? std::string() : result.status().message();
  };
  GeneratorOptions options;
  options.max_context = 2000000;
  EXPECT_EQ(error(options), "max_context is 2000000; allowed: 1 to 1048576, the model's own");
  options.max_context = -1;
  EXPECT_NE(error(options).find("max_context is -1"), std::string::npos);
  options = {};
  options.prefill_chunk = -5;
  EXPECT_NE(error(options).find("prefill_chunk is -5"), std::string::npos);
  options = {};
  options.prefill = PrefillMode::kBoundedReplay;
  options.replay_tokens = 128;
  EXPECT_EQ(error(options), "replay_tokens is 128; allowed: 134 or more (window and drafts)");
  options = {};
  options.model = "/nonexistent";
  EXPECT_NE(error(options).find("/nonexistent/config.json"), std::string::npos);
}

TEST(EngramTokens, DemonstrationMapIsTheOneOfItsTokenizer) {
  const auto tokens = load_model_tokens(DEEPINFER_TEST_MODEL);
  ASSERT_TRUE(tokens.ok()) << tokens.status().message();
  std::ifstream file(std::filesystem::path(DEEPINFER_TEST_MODEL) / "engram_token_map.json");
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  const auto shipped = deepseek_v41::parse_engram_token_map(json, "map").value();
  const auto built = deepseek_v41::build_engram_token_map(*tokens);
  EXPECT_EQ(built.count, 3269);
  EXPECT_EQ(built.count, shipped.count);
  EXPECT_EQ(built.classes, shipped.classes);
}

TEST(EngramTokens, MapOfTheReleasedTokenizer) {
  DEEPINFER_NEEDS_DEEPSEEK_TOKENIZER();
  const auto tokens = load_model_tokens(deepseek_tokenizer_file().parent_path());
  ASSERT_TRUE(tokens.ok()) << tokens.status().message();
  const auto map = deepseek_v41::build_engram_token_map(*tokens);
  EXPECT_EQ(map.count, 99092);
  ASSERT_EQ(map.classes.size(), 129280u);
  EXPECT_EQ(map.classes[2], 2);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(map.classes)));  // little-endian int32
  EXPECT_EQ(to_hex(hash.finish()), "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
}

// A folder of links to the demonstration model's files, some left out or replaced.
class LinkedModel {
 public:
  explicit LinkedModel(const std::vector<std::string>& without) {
    for (const auto& entry : std::filesystem::directory_iterator(DEEPINFER_TEST_MODEL)) {
      const std::string name = entry.path().filename();
      if (std::find(without.begin(), without.end(), name) == without.end())
        std::filesystem::create_symlink(std::filesystem::absolute(entry.path()), folder_ / name);
    }
  }
  const TemporaryFolder& folder() const { return folder_; }
  Result<std::unique_ptr<Generator>> open() const {
    GeneratorOptions options;
    options.model = folder_.path();
    options.max_context = 64;
    return Generator::open(options, make_reference_ops());
  }

 private:
  TemporaryFolder folder_;
};

TEST(EngramTokens, MapIsBuiltWhereTheFolderHasNone) {
  const LinkedModel linked({"engram_token_map.json"});
  const auto generator = linked.open();
  ASSERT_TRUE(generator.ok()) << generator.status().message();
  expect_same_answer(generate(**generator, kPrompt, greedy_params(5, 5)),
                     generate(*open_generator(kReference), kPrompt, greedy_params(5, 5)), "built map");
}

TEST(EngramTokens, WrongMapsAreNamed) {
  const LinkedModel linked({"engram_token_map.json"});
  linked.folder().write("engram_token_map.json", R"({"map": [0, 1], "classes": 2})");
  const Status status = linked.open().status();
  EXPECT_NE(status.message().find(
                "engram_token_map.json: 2 token classes, but engram_compressed_vocab_size of config.json is 3269"),
            std::string::npos)
      << status.message();
}

TEST(OpenModel, MissingAndUnknownModels) {
  const LinkedModel no_weights({"model-00002-of-00003.safetensors"});
  EXPECT_NE(no_weights.open().status().message().find("model-00002-of-00003.safetensors"), std::string::npos);
  const LinkedModel other({"config.json"});
  other.folder().write("config.json", R"({"model_type": "deepseek_v3"})");
  EXPECT_EQ(other.open().status().code(), StatusCode::kUnsupported);
  EXPECT_NE(other.open().status().message().find("model_type is \"deepseek_v3\""), std::string::npos);
}

TEST(OpenModel, OversizedFilesAreRefusedUnread) {
  const std::pair<const char*, const char*> bounds[] = {{"config.json", "67108864"},
                                                        {"engram_token_map.json", "67108864"},
                                                        {"model.safetensors.index.json", "256000000"},
                                                        {"tokenizer.json", "268435456"}};
  for (const auto& [name, bound] : bounds) {
    const LinkedModel linked({name, "engram_token_map.json"});  // without the map the tokenizer is read
    linked.folder().write(name, "");
    std::filesystem::resize_file(linked.folder() / name, uint64_t{1} << 40);  // sparse
    const Status status = linked.open().status();
    EXPECT_EQ(status.code(), StatusCode::kCorruptFile);
    EXPECT_EQ(status.message(), linked.folder() / name + ": has 1099511627776 bytes; allowed: at most " + bound);
  }
}

}  // namespace
}  // namespace deepinfer
