// `deepinfer bench`: what it prints, not how fast anything is.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/bench_result.h"
#include "bench/median.h"
#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::bench {
namespace {

using Json = nlohmann::json;
using cli::deepinfer;

std::vector<Json> objects(const std::string& output) {
  std::vector<Json> list;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) list.push_back(Json::parse(line));
  return list;
}

void expect_fields(const Json& result, bool with_limit) {
  for (const char* field : {"name", "unit", "hardware", "commit"})
    EXPECT_TRUE(result[field].is_string()) << result.dump();
  EXPECT_GT(result["value"], 0) << result.dump();
  for (const char* field : {"limit", "ratio"}) {
    EXPECT_TRUE(with_limit ? result[field].is_number() : result[field].is_null()) << result.dump();
  }
}

TEST(Bench, TokenizerPrintsOneObjectAResult) {
  const cli::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "The quick brown fox number " + std::to_string(i) + " jumps over it.\n";
  const auto file = folder.write("text.txt", text).string();
  const auto result = deepinfer({"bench", "tokenizer", file, "--samples", "1", "--threads", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::vector<Json> results = objects(result.output);
  ASSERT_EQ(results.size(), 2u);
  for (const Json& one : results) expect_fields(one, false);
  EXPECT_EQ(results[0]["name"], "encode text.txt, 1 thread");
  EXPECT_EQ(results[1]["unit"], "MiB/s");
}

// Layers of the demonstration model's dimensions: small enough for a test.
TEST(Bench, SyntheticLayersStandBesideTheirLimits) {
  const auto result = deepinfer({"bench", "model", "--synthetic", "--config", DEEPINFER_TEST_MODEL, "--layers", "3",
                                 "--working-set", "0.2", "--samples", "1", "--prefill", "64,100", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::vector<Json> results = objects(result.output);
  ASSERT_EQ(results.size(), 3u);
  for (const Json& one : results) expect_fields(one, true);
  EXPECT_EQ(results[0]["name"], "prefill of 64 tokens, 3 layers");
  EXPECT_EQ(results[2]["name"], "decode, batch 1, 3 layers");
  EXPECT_NEAR(results[0]["ratio"].get<double>(), results[0]["limit"].get<double>() / results[0]["value"].get<double>(),
              1e-9);
  EXPECT_NEAR(results[2]["ratio"].get<double>(), results[2]["value"].get<double>() / results[2]["limit"].get<double>(),
              1e-9);
}

TEST(Bench, LoadPrintsWhatSendersSee) {
  const cli::TemporaryFolder folder;
  const auto prompts =
      folder.write("prompts.jsonl", "\"Hello\"\n{\"prompt\": \"What is 3 + 4?\", \"max_tokens\": 3}\n");
  const auto file = (folder / "sweep.json").string(), trace = (folder / "trace.json").string();
  const auto result = deepinfer({"bench",
                                 "sweep",
                                 "--concurrency",
                                 "1,3",
                                 "--requests",
                                 "4",
                                 "--answer-tokens",
                                 "5",
                                 "--workload",
                                 prompts.string(),
                                 "--draft-schedule",
                                 "all",
                                 "--max-context",
                                 "4096",
                                 "--json",
                                 "-o",
                                 file,
                                 "--trace",
                                 trace,
                                 "--log-stats",
                                 "2"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::vector<Json> results = objects(result.output);
  ASSERT_EQ(results.size(), 6u);
  for (const Json& one : results) expect_fields(one, false);
  EXPECT_EQ(results[3]["name"], "answer tokens, 3 at a time");
  EXPECT_NE(result.errors.find("[stats] (is_prompt"), std::string::npos) << result.errors;
  std::ifstream sweep_file(file), trace_file(trace);
  const Json sweep = Json::parse(sweep_file);
  ASSERT_EQ(sweep["points"].size(), 2u);
  for (const Json& point : sweep["points"]) {
    EXPECT_EQ(point["requests"], 4);
    EXPECT_EQ(point["answer_tokens"], 2 * (5 + 3));  // each answer has its full length
    EXPECT_GT(point["inter_token_seconds"]["p99"], 0);
  }
  EXPECT_GT(Json::parse(trace_file).size(), 10u);
  const auto latency = deepinfer({"bench", "latency", "--requests", "2", "--workload", "sharegpt", "--max-context",
                                  "4096", "--draft-schedule", "all", "--concurrency", "2", "--json"});
  ASSERT_EQ(latency.exit_code, 0) << latency.errors;
  EXPECT_EQ(objects(latency.output).size(), 12u);
  const auto arrival =
      deepinfer({"bench", "latency", "--concurrency", "2", "--arriving-prompt-tokens", "700", "--answer-tokens", "5",
                 "--step-rows", "64", "--decode-latency-ms", "30", "--max-context", "4096", "--json"});
  ASSERT_EQ(arrival.exit_code, 0) << arrival.errors;
  const std::vector<Json> waits = objects(arrival.output);
  ASSERT_EQ(waits.size(), 6u);
  EXPECT_EQ(waits[3]["name"], "between tokens, p99, beside a prompt of 700 tokens, 2 streams");
  EXPECT_GT(waits[3]["value"], 0);
  EXPECT_GE(waits[3]["limit"], 30);
  const auto too_short = deepinfer({"bench", "latency", "--concurrency", "2", "--arriving-prompt-tokens", "100",
                                    "--prompt-tokens", "10", "--answer-tokens", "200", "--max-context", "150"});
  EXPECT_EQ(too_short.exit_code, 3) << too_short.output;
  EXPECT_NE(too_short.errors.find("before the arriving prompt had its first"), std::string::npos) << too_short.errors;
  EXPECT_EQ(deepinfer({"bench", "throughput", "--concurrency", "0"}).exit_code, 2);
  EXPECT_EQ(deepinfer({"bench", "throughput", "--workload", "/no/such/file"}).exit_code, 3);
}

TEST(Bench, ServerBesideItsEngine) {
  const auto result = deepinfer({"bench", "serve", "--null-model", "--concurrency", "1,3", "--requests", "5",
                                 "--rounds", "1", "--prompt-tokens", "9", "--answer-tokens", "7", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::vector<Json> results = objects(result.output);
  ASSERT_EQ(results.size(), 16u);
  EXPECT_EQ(results[8]["name"], "answer tokens, served, 3 at a time");
  EXPECT_GT(results[8]["value"], 0);
  EXPECT_GT(results[8]["limit"], 0);
  EXPECT_EQ(deepinfer({"bench", "serve", "--rounds", "0"}).exit_code, 2);
}

TEST(Bench, TooLittleMemorySaysHowMuchIsNeeded) {
  const auto result = deepinfer({"bench", "model", "--synthetic", "--layers", "40", "--working-set", "1"});
  EXPECT_EQ(result.exit_code, 4);
  for (const char* part : {"40 layers need at least", "allowed are 1.0 GB", "--working-set"})
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
}

TEST(Bench, AMissingFileIsNamed) {
  const auto result = deepinfer({"bench", "tokenizer", "/no/such/file.txt"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.errors.find("/no/such/file.txt"), std::string::npos) << result.errors;
}

TEST(BenchResult, RatioIsOneAtTheLimit) {
  EXPECT_EQ(*(BenchResult{"a", 5, "GB/s", 10.0}).ratio(), 0.5);
  EXPECT_EQ(*(BenchResult{"a", 20, "ms", 10.0}).ratio(), 0.5);
  EXPECT_FALSE((BenchResult{"a", 5, "GB/s", {}}).ratio().has_value());
  EXPECT_EQ(median({3, 1, 2}), 2);
}

}  // namespace
}  // namespace deepinfer::bench
