// config.json: what is read, and that every wrong value is refused by a message that names key, value and what is
// allowed.
#include "models/deepseek_v41/config.h"

#include <gtest/gtest.h>

#include "models/test_configs.h"

namespace deepinfer::deepseek_v41 {
namespace {

using nlohmann::json;

TEST(Config, ReadsTheReleasedModel) {
  const Config c = config_of(flash_json());
  EXPECT_EQ(c.vocab_size, 129280);
  EXPECT_EQ(c.hidden_size, 5120);
  EXPECT_EQ(c.num_hidden_layers, 40);
  EXPECT_EQ(c.total_layers(), 43);
  EXPECT_EQ(c.rms_norm_eps, 1e-20f);
  EXPECT_EQ(c.rope_scaling.factor, 16);
  EXPECT_EQ(c.compress_ratios.size(), 43u);
  EXPECT_EQ(c.index_source_layer_ids, (std::vector<int>{2, 8, 14, 20, 24, 28, 32, 36}));
  EXPECT_EQ(c.candidate_source_layer_id, 20);
  EXPECT_EQ(c.engram_num_embeddings, (std::vector<int64_t>{384006168, 384016682}));
  EXPECT_EQ(c.engram_lookups(), 24);
  EXPECT_EQ(c.dspark_target_layer_ids, (std::vector<int>{37, 38, 39}));
  EXPECT_EQ(c.image_token_id, 129264);
  EXPECT_EQ(c.vision.num_hidden_layers, 32);
  EXPECT_EQ(c.vision.min_pixels, 295936);
  EXPECT_FALSE(c.vision.max_wh_ratio.has_value());
}

TEST(Config, TextConfigMayBeFlat) {
  json flat = demonstration_json();
  json text = flat["text_config"];
  flat.erase("text_config");
  text.erase("model_type");
  flat.update(text);
  const Config a = config_of(flat);
  const Config b = config_of(demonstration_json());
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.compress_ratios, b.compress_ratios);
  EXPECT_EQ(a.dspark_block_size, b.dspark_block_size);
}

TEST(Config, OptionalPartsMayBeAbsent) {
  json j = demonstration_json();
  json& t = j["text_config"];
  t["candidate_source_layer_id"] = nullptr;
  t["engram_layer_ids"] = json::array();
  t["num_nextn_predict_layers"] = 0;
  t["compress_ratios"] = {0, 0, 2, 2, 1, 1, 1, 1};
  t["rope_scaling"] = nullptr;
  for (const char* key : {"dspark_block_size", "dspark_target_layer_ids", "engram_head_dim", "hidden_act", "use_cache"})
    t.erase(key);
  const Config c = config_of(j);
  EXPECT_FALSE(c.candidate_source_layer_id.has_value());
  EXPECT_TRUE(c.engram_layer_ids.empty());
  EXPECT_EQ(c.dspark_block_size, 0);
  EXPECT_EQ(c.rope_scaling.factor, 0);
}

struct Refusal {
  std::string pointer;  // JSON pointer of the value that is replaced; a null value that is not allowed removes the key
  json value;
  std::string message;  // that it contains
};
void PrintTo(const Refusal& r, std::ostream* out) {
  *out << r.pointer << " = " << r.value;
}

class ConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefuses, WithKeyValueAndRange) {
  json j = demonstration_json();
  const json::json_pointer at(GetParam().pointer);
  if (GetParam().value == "REMOVED") {
    j.at(at.parent_pointer()).erase(at.back());
  } else {
    j[at] = GetParam().value;
  }
  const auto result = parse_config(j.dump(), "some/config.json");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find(GetParam().message), std::string::npos) << result.status().message();
  EXPECT_EQ(result.status().message().find("some/config.json"), 0u) << result.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    Values, ConfigRefuses,
    testing::Values(
        Refusal{"/model_type", "deepseek_v3", "model_type is \"deepseek_v3\"; this build runs: \"deepseek_v41\""},
        Refusal{"/model_type", "REMOVED", "model_type is missing"},
        Refusal{"/dtype", "float16", "dtype is \"float16\"; allowed: \"bfloat16\""},
        Refusal{"/dtype", "REMOVED", "dtype is missing; allowed: \"bfloat16\""},
        Refusal{"/eos_token_id", 4096, "eos_token_id is 4096; allowed: below vocab_size, 4096"},
        Refusal{"/quantization_config", "REMOVED", "quantization_config is missing; allowed: an object"},
        Refusal{"/quantization_config/quant_method", "gptq",
                "quantization_config.quant_method is \"gptq\"; allowed: \"fp8\""},
        Refusal{"/quantization_config/weight_block_size", json::array({128, 128}),
                "quantization_config.weight_block_size"},
        Refusal{"/quantization_config/scale_fmt", "float", "allowed: \"ue8m0\""},
        Refusal{"/quantization_config/expert_dtype", "fp8", "allowed: \"fp4\""},
        Refusal{"/quantization_config/activation_scheme", "static", "allowed: \"dynamic\""},
        Refusal{"/vision_config", "REMOVED", "vision_config is missing; allowed: an object"},
        Refusal{"/vision_config/hidden_size", 190,
                "vision_config.hidden_size is 190; allowed: a multiple of num_attention_heads"},
        Refusal{"/text_config", 5, "text_config is 5; allowed: an object"},
        Refusal{"/text_config/model_type", "x", "text_config.model_type is \"x\""},
        Refusal{"/text_config/hidden_act", "gelu", "text_config.hidden_act is \"gelu\"; allowed: \"silu\""},
        Refusal{"/text_config/attention_bias", true, "attention_bias is true; allowed: false"},
        Refusal{"/text_config/attention_dropout", 0.1, "attention_dropout is 0.1; allowed: 0"},
        Refusal{"/text_config/num_key_value_heads", 2, "num_key_value_heads is 2; allowed: 1"},
        Refusal{"/text_config/scoring_func", "softmax", "scoring_func"},
        Refusal{"/text_config/topk_method", "greedy", "topk_method"},
        Refusal{"/text_config/norm_topk_prob", false, "norm_topk_prob is false; allowed: true"},
        Refusal{"/text_config/n_shared_experts", 2, "n_shared_experts is 2; allowed: 1"},
        Refusal{"/text_config/tie_word_embeddings", true, "tie_word_embeddings"},
        Refusal{"/text_config/hc_shifted", false, "hc_shifted is false; allowed: true"},
        Refusal{"/text_config/use_fp4_sparse_kv", false, "use_fp4_sparse_kv"},
        Refusal{"/text_config/dspark_target_attn_input", false, "dspark_target_attn_input"},
        Refusal{"/text_config/gate_temp", 2.0, "gate_temp"},
        Refusal{"/text_config/vocab_size", 0, "vocab_size is 0; allowed: an integer from 2 to 1048576"},
        Refusal{"/text_config/vocab_size", 4096.5, "vocab_size is 4096.5; allowed: an integer"},
        Refusal{"/text_config/vocab_size", -1, "vocab_size is -1"},
        Refusal{"/text_config/vocab_size", "4096", "vocab_size is \"4096\""},
        Refusal{"/text_config/hidden_size", 250, "hidden_size is 250; allowed: a multiple of 32"},
        Refusal{"/text_config/hidden_size", "REMOVED", "hidden_size is missing; allowed: an integer from 32"},
        Refusal{"/text_config/hidden_size", int64_t{1} << 40, "hidden_size is 1099511627776"},
        Refusal{"/text_config/qk_rope_head_dim", 32, "qk_rope_head_dim is 32; allowed: an integer from 64 to 64"},
        Refusal{"/text_config/index_head_dim", 64, "index_head_dim is 64; allowed: an integer from 128 to 128"},
        // Beyond what the kernels have room for: refused here, or opening the model would abort.
        Refusal{"/text_config/head_dim", 576, "head_dim is 576; allowed: an integer from 64 to 512"},
        Refusal{"/text_config/n_routed_experts", 1 << 16,
                "n_routed_experts is 65536; allowed: num_hidden_layers x n_routed_experts up to 131072"},
        Refusal{"/text_config/dspark_n_routed_experts", 1 << 16,
                "dspark_n_routed_experts is 65536; allowed: num_nextn_predict_layers x dspark_n_routed_experts up to"},
        Refusal{"/text_config/max_position_embeddings", (int64_t{1} << 32) - 1,
                "max_position_embeddings is 4294967295; allowed: an integer from 1 to 2147483647"},
        Refusal{"/text_config/index_n_heads", 33, "index_n_heads is 33; allowed: an integer from 1 to 32"},
        Refusal{"/text_config/o_groups", 3, "o_groups is 3; allowed: a divisor of num_attention_heads, 4"},
        Refusal{"/text_config/candidate_block_size", 12, "candidate_block_size is 12; allowed: 8 or 16"},
        Refusal{"/text_config/candidate_topk_blocks", 60, "candidate_topk_blocks is 60; allowed: a multiple of 8"},
        Refusal{"/text_config/candidate_topk_blocks", 8192, "candidate_topk_blocks is 8192"},
        Refusal{"/text_config/compress_ratios/3", 4, "compress_ratios[3] is 4; allowed: an integer from 0 to 2"},
        Refusal{"/text_config/compress_ratios", json::array({0, 0, 2, 2, 1, 1, 1, 1}),
                "compress_ratios is 8 values; allowed: num_hidden_layers + num_nextn_predict_layers = 11 values"},
        Refusal{"/text_config/kv_source_layer_ids", json::array({4, 2}),
                "kv_source_layer_ids[1] is 2; allowed: above 4"},
        Refusal{"/text_config/kv_source_layer_ids", json::array({2, 8}), "kv_source_layer_ids[1] is 8"},
        Refusal{"/text_config/index_k_source_layer_ids", json::array({2}), "index_k_source_layer_ids"},
        Refusal{"/text_config/engram_head_dim", 100, "engram_head_dim"},
        Refusal{"/text_config/engram_num_embeddings", json::array({9210}),
                "engram_num_embeddings is 1 values; allowed: one for each of the 2"},
        Refusal{"/text_config/engram_pad_token_id", 5000, "engram_pad_token_id is 5000"},
        Refusal{"/text_config/engram_compressed_vocab_size", 0, "engram_compressed_vocab_size is 0"},
        Refusal{"/text_config/dspark_target_layer_ids", json::array(), "dspark_target_layer_ids is empty"},
        Refusal{"/text_config/dspark_noise_token_id", 4096, "dspark_noise_token_id is 4096"},
        Refusal{"/text_config/rope_scaling/rope_type", "linear",
                "text_config.rope_scaling.rope_type is \"linear\"; allowed: \"yarn\""},
        Refusal{"/text_config/rms_norm_eps", 0, "rms_norm_eps is 0"},
        Refusal{"/text_config/hc_mult", 2, "hc_mult is 2"}));

// The kernels choose at most 64 experts a row, however many there are.
TEST(Config, RefusesMoreExpertsATokenThanKernelsChoose) {
  for (const std::string prefix : {"", "dspark_"}) {
    json j = demonstration_json();
    j["text_config"][prefix + "n_routed_experts"] = 128;
    j["text_config"][prefix + "num_experts_per_tok"] = 64;
    EXPECT_TRUE(parse_config(j.dump()).ok());
    j["text_config"][prefix + "num_experts_per_tok"] = 65;
    const auto result = parse_config(j.dump());
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find(prefix + "num_experts_per_tok is 65; allowed: an integer from 1 to 64"),
              std::string::npos)
        << result.status().message();
  }
}

TEST(Config, RefusesOtherText) {
  EXPECT_FALSE(parse_config("", "c").ok());
  EXPECT_FALSE(parse_config("[]", "c").ok());
  EXPECT_FALSE(parse_config("{\"model_type\": ", "c").ok());
  EXPECT_EQ(parse_config("{\"model_type\": \"llama\"}", "c").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(load_config("/nonexistent").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace deepinfer::deepseek_v41
