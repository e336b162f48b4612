#include "generation_defaults.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generation_options.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

TEST(GenerationDefaults, OfTheDemonstrationModel) {
  const auto defaults = read_generation_defaults(DEEPINFER_TEST_MODEL);
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_EQ(defaults->temperature, 0.6f);
  EXPECT_EQ(defaults->top_p, 0.95f);
  EXPECT_EQ(defaults->end_tokens, std::vector<int32_t>{1});
}

TEST(GenerationDefaults, AFileThatIsNotThereSaysNothing) {
  const TemporaryFolder folder;
  const auto defaults = read_generation_defaults(folder.path());
  ASSERT_TRUE(defaults.ok());
  EXPECT_FALSE(defaults->temperature.has_value());
  EXPECT_TRUE(defaults->end_tokens.empty());
}

TEST(GenerationDefaults, GreedyWhereTheFileDoesNotSample) {
  const TemporaryFolder folder;
  folder.write("generation_config.json", R"({"do_sample": false, "temperature": 0.7, "eos_token_id": [1, 5]})");
  const auto defaults = read_generation_defaults(folder.path());
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(defaults->temperature, 0.0f);
  EXPECT_EQ(defaults->end_tokens, (std::vector<int32_t>{1, 5}));
}

TEST(GenerationDefaults, NamesFileFieldValueAndRange) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"top_p": 1.5})", "top_p: 1.5 is out of range, allowed: (0, 1]"},
           {R"({"top_p": "high"})", "top_p: \"high\" is out of range"},
           {R"({"temperature": -1})", "temperature: -1 is out of range, allowed: at least 0"},
           {R"({"temperature": 1e300})", "temperature: 1e+300 is out of range"},
           {R"({"top_k": 2.5})", "top_k: 2.5 is out of range"},
           {R"({"top_k": 99999999999})", "top_k: 99999999999 is out of range"},
           {R"({"eos_token_id": [1, -2]})", "eos_token_id: -2 is out of range"},
           {"[1]", "not a JSON object"},
           {"{", "generation_config.json"}}) {
    const TemporaryFolder folder;
    folder.write("generation_config.json", text);
    const auto defaults = read_generation_defaults(folder.path());
    ASSERT_FALSE(defaults.ok()) << text;
    EXPECT_EQ(defaults.status().code(), StatusCode::kCorruptFile);
    EXPECT_NE(defaults.status().message().find(expected), std::string::npos) << defaults.status().message();
    EXPECT_NE(defaults.status().message().find((folder / "generation_config.json").string()), std::string::npos);
  }
}

TEST(GenerationDefaults, OptionsOverrule) {
  GenerationDefaults defaults;
  defaults.temperature = 0.6f;
  defaults.top_p = 0.95f;
  GenerationOptions options;
  options.temperature = 0.0f;
  options.seed = 7;
  const GenerationParams params = generation_params(options, defaults);
  EXPECT_EQ(params.temperature, 0.0f);
  EXPECT_EQ(params.top_p, 0.95f);
  EXPECT_EQ(params.seed, 7u);
  EXPECT_EQ(params.draft_tokens, -1);
}

}  // namespace
}  // namespace deepinfer::cli
