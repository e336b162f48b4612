// Config: what config.json says about a DeepSeek-V4.1 checkpoint, checked (specs: docs/model.md, "Configuration").
// Loaded once by the model and by `deepinfer inspect`; everything else takes it read-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/rope.h"

namespace deepinfer::deepseek_v41 {

// The picture encoder's part.  The tensors are known and checked; text generation does not use them.
struct VisionConfig {
  int64_t num_hidden_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_attention_heads = 0;
  int64_t intermediate_size = 0;
  int64_t patch_size = 0;
  double rope_theta = 0;
  int64_t downsample_ratio = 0;
  int64_t max_image_tokens = 0;
  int64_t min_pixels = 0;
  std::optional<double> max_wh_ratio;
};

// A key that was read, or its default, as text.
struct ConfigValue {
  std::string key;
  std::string value;
};

// Field names are the keys of text_config.
struct Config {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t moe_intermediate_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int head_dim = 0;
  int qk_rope_head_dim = 0;
  int64_t q_lora_rank = 0;
  int64_t o_lora_rank = 0;
  int o_groups = 0;
  float swiglu_limit = 0;
  float rms_norm_eps = 0;
  int64_t max_position_embeddings = 0;
  double rope_theta = 0;
  double compress_rope_theta = 0;
  RopeScaling rope_scaling;  // of compress_rope_theta; factor 0: none

  int n_routed_experts = 0;
  int num_experts_per_tok = 0;
  float routed_scaling_factor = 0;

  int sliding_window = 0;
  std::vector<int> compress_ratios;  // one a layer, then one a draft stage
  std::vector<int> kv_source_layer_ids;
  std::vector<int> index_source_layer_ids;
  int index_n_heads = 0;
  int index_head_dim = 0;
  int index_topk = 0;
  std::optional<int> candidate_source_layer_id;  // none: no candidate pool
  int candidate_topk_blocks = 0;
  int candidate_block_size = 0;

  int hc_mult = 0;
  int hc_sinkhorn_iters = 0;
  float hc_eps = 0;

  std::vector<int> engram_layer_ids;  // empty: no Engram, the fields below are 0
  std::vector<int64_t> engram_num_embeddings;
  int engram_max_ngram_size = 0;
  int64_t engram_vocab_size = 0;
  int engram_n_heads = 0;
  int64_t engram_head_dim = 0;
  int32_t engram_pad_token_id = 0;
  int64_t engram_compressed_vocab_size = 0;

  int num_nextn_predict_layers = 0;  // draft stages; 0: no draft, the fields below are 0
  int dspark_block_size = 0;
  int32_t dspark_noise_token_id = 0;
  std::vector<int> dspark_target_layer_ids;
  int64_t dspark_markov_rank = 0;
  int dspark_n_routed_experts = 0;
  int dspark_num_experts_per_tok = 0;

  int32_t bos_token_id = 0;
  int32_t eos_token_id = 0;
  int32_t pad_token_id = 0;
  int32_t image_token_id = 0;
  VisionConfig vision;

  std::vector<ConfigValue> values;  // all of the above in the order of reading: what two configurations are compared by

  // Layers and draft stages together; stage k is layer num_hidden_layers + k.
  int total_layers() const { return num_hidden_layers + num_nextn_predict_layers; }
  // Engram rows of a token: one for each n-gram length from 2 on and each head.
  int engram_lookups() const { return (engram_max_ngram_size - 1) * engram_n_heads; }
};

inline constexpr std::string_view kModelType = "deepseek_v41";

// Parses the text of a config.json: text_config nested or its keys at the root.  Errors name the key, its value and
// what is allowed; `source` (a file name) goes in front of them.
Result<Config> parse_config(std::string_view json, std::string_view source = "config.json");

// Reads FOLDER/config.json.
Result<Config> load_config(const std::filesystem::path& folder);

}  // namespace deepinfer::deepseek_v41
