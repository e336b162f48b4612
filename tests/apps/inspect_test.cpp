// `deepinfer inspect` on the demonstration model and on a config without weights.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "bench/released_config.h"
#include "model_summary.h"
#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

using Json = nlohmann::json;

TEST(Inspect, AccountsForEveryByte) {
  const ProgramResult result = deepinfer({"inspect", "--json", "--tensors", "--verify"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Json object = Json::parse(result.output);
  uint64_t tensors = 0, bytes = 0;
  for (const Json& part : object["parts"]) {
    tensors += part["tensors"].get<uint64_t>();
    bytes += part["bytes"].get<uint64_t>();
    EXPECT_NE(part["part"], "other");
  }
  EXPECT_EQ(object["tensor_count"], tensors);
  EXPECT_EQ(object["bytes"], bytes);
  EXPECT_EQ(object["tensors"].size(), tensors);
  EXPECT_EQ(object["verified"]["tensors"], tensors);
  // v41-model.md 3.1, "Size".
  EXPECT_EQ(object["kv_bytes_per_token"], 534);
  EXPECT_EQ(object["bytes_per_sequence"], 806944);
  EXPECT_EQ(object["layers"].size(), 11u);
  EXPECT_EQ(object["layers"][2]["kind"], "full");
}

TEST(Inspect, TextHasTheTables) {
  const ProgramResult result = deepinfer({"inspect"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  for (const char* part : {"DeepSeek-V4.1-Tiny: deepseek_v41", "35.7", "Architecture", "8 layers: 4 encoder, 4 decoder",
                           "Bytes by part", "routed experts", "Engram tables", "DSpark draft", "picture encoder",
                           "534 bytes a token", "this machine", "H200"})
    EXPECT_NE(result.output.find(part), std::string::npos) << part << " is not in:\n" << result.output;
}

TEST(Inspect, ListsTensors) {
  const ProgramResult result = deepinfer({"inspect", "--tensors"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("embed.weight\tBF16\t[4096, 256]\t2097152\tmodel-0000"), std::string::npos);
}

// Sizes of the released model, from its config alone (v41-model.md sections 5 and 9).
TEST(Inspect, AConfigWithoutWeightsShowsWhatItAsksFor) {
  const TemporaryFolder folder;
  folder.write("config.json", bench::released_config_json());
  const ProgramResult result = deepinfer({"inspect", "--json", folder.path().string()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Json object = Json::parse(result.output);
  EXPECT_EQ(object["tensor_count"], 96085);
  EXPECT_EQ(object["bytes"], 510286023000);
  EXPECT_EQ(object["engram_table_bytes"], 202758032400);
  EXPECT_EQ(object["kv_bytes_per_token"], 890);
  EXPECT_EQ(object["bytes_per_sequence"], 3128352);
  EXPECT_NEAR(object["parameters"].get<double>(), 763.21e9, 0.01e9);
  EXPECT_EQ(deepinfer({"inspect", "--verify", folder.path().string()}).exit_code, 3);
}

TEST(ModelSummary, PartsByName) {
  EXPECT_EQ(part_of("layers.3.ffn.experts.12.w1.weight"), "routed experts");
  EXPECT_EQ(part_of("model.layers.3.ffn.experts.12.w1.scale"), "routed experts");
  EXPECT_EQ(part_of("layers.3.ffn.shared_experts.w2.weight"), "shared experts");
  EXPECT_EQ(part_of("layers.3.ffn.gate.bias_vl"), "router");
  EXPECT_EQ(part_of("layers.3.attn.wq_a.weight"), "attention");
  EXPECT_EQ(part_of("layers.2.attn.indexer.k_norm.weight"), "compressor and indexer");
  EXPECT_EQ(part_of("layers.2.attn.q_norm.weight"), "norms");
  EXPECT_EQ(part_of("layers.2.hc_attn_fn"), "hyper-connections");
  EXPECT_EQ(part_of("layers.1.engram.embed.scale"), "Engram tables");
  EXPECT_EQ(part_of("layers.1.engram.wkv.weight"), "Engram projections");
  EXPECT_EQ(part_of("mtp.2.markov_head.embed.weight"), "DSpark draft");
  EXPECT_EQ(part_of("vision.norm.weight"), "picture encoder");
  EXPECT_EQ(part_of("image_newline"), "picture encoder");
  EXPECT_EQ(part_of("norm.weight"), "norms");
  EXPECT_EQ(part_of("head.weight"), "embedding and head");
  EXPECT_EQ(part_of("layers.0.something"), "other");
}

}  // namespace
}  // namespace deepinfer::cli
