#include "models/synthetic_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "models/deepseek_v41/tensors.h"
#include "models/test_configs.h"
#include "tensor/safetensors_file.h"

namespace deepinfer {
namespace {

using deepseek_v41::ExpectedTensor;

// Values of the size that trained ones have, so that activations neither vanish nor saturate.
std::string random_data(const ExpectedTensor& t, std::mt19937_64& random) {
  std::string data(t.bytes(), '\0');
  std::normal_distribution<float> normal(0, 1);
  const bool norm = t.name.find("norm.weight") != std::string::npos || t.name.find("_weight") != std::string::npos;
  const auto columns = static_cast<float>(t.shape[t.shape.rank() - 1]);
  const float spread = 1 / std::sqrt(columns);
  for (size_t i = 0; i < data.size();) {
    switch (t.dtype) {
      case DType::kBF16: {
        const bf16 value = to_bf16(norm ? 1 + 0.1f * normal(random) : 2 * spread * normal(random));
        std::copy_n(reinterpret_cast<const char*>(&value), 2, data.data() + i);
        i += 2;
        break;
      }
      case DType::kF32: {
        const float value = 0.3f * normal(random);
        std::copy_n(reinterpret_cast<const char*>(&value), 4, data.data() + i);
        i += 4;
        break;
      }
      case DType::kF8E8M0:
        data[i++] = static_cast<char>(t.name.find("embed") != std::string::npos ? 120 : 117 + random() % 2);
        break;
      case DType::kF8E4M3:
        data[i++] = static_cast<char>((random() % 2 << 7) | (random() % 0x58));  // up to +-16
        break;
      default:
        data[i++] = static_cast<char>(random());
    }
  }
  return data;
}

}  // namespace

nlohmann::json synthetic_config(const nlohmann::json& edits) {
  nlohmann::json config = demonstration_json();
  nlohmann::json& t = config["text_config"];
  t.update({{"vocab_size", 512},
            {"hidden_size", 64},
            {"moe_intermediate_size", 32},
            {"num_attention_heads", 2},
            {"head_dim", 128},
            {"q_lora_rank", 32},
            {"o_lora_rank", 32},
            {"o_groups", 2},
            {"n_routed_experts", 6},
            {"num_experts_per_tok", 2},
            {"sliding_window", 16},
            {"index_n_heads", 2},
            {"index_topk", 16},
            {"candidate_topk_blocks", 8},
            {"engram_vocab_size", 300},
            {"engram_head_dim", 128},
            {"engram_n_heads", 1},
            {"engram_compressed_vocab_size", 400},
            {"dspark_markov_rank", 32},
            {"dspark_n_routed_experts", 4},
            {"dspark_num_experts_per_tok", 2},
            {"dspark_block_size", 3}});
  t.update(edits);
  config["vision_config"].update({{"num_hidden_layers", 1}, {"hidden_size", 12}, {"intermediate_size", 8}});
  if (t["engram_layer_ids"].empty()) return config;
  // The sums of the primes from 300 on, three a layer.
  const int64_t primes[] = {307, 311, 313, 317, 331, 337};
  nlohmann::json sums = nlohmann::json::array();
  for (size_t i = 0; i < t["engram_layer_ids"].size(); ++i)
    sums.push_back(primes[3 * i] + primes[3 * i + 1] + primes[3 * i + 2]);
  t["engram_num_embeddings"] = sums;
  return config;
}

void write_synthetic_model(const TemporaryFolder& folder, const nlohmann::json& json, uint64_t seed) {
  folder.write("config.json", json.dump());
  const deepseek_v41::Config config = config_of(json);
  auto tensors = expected_tensors(config, table_of(config));
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const ExpectedTensor& a, const ExpectedTensor& b) { return bits(a.dtype) > bits(b.dtype); });
  std::mt19937_64 random(seed);
  nlohmann::ordered_json header;
  std::string data;
  for (const ExpectedTensor& t : tensors) {
    header[t.name] = {{"dtype", std::string(to_string(t.dtype))},
                      {"shape", std::vector<int64_t>(t.shape.dims().begin(), t.shape.dims().end())},
                      {"data_offsets", {data.size(), data.size() + t.bytes()}}};
    data += random_data(t, random);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  folder.write("model.safetensors", length_prefix(text.size()) + text + data);
  if (config.engram_layer_ids.empty()) return;
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < config.vocab_size; ++i) classes.push_back(i % config.engram_compressed_vocab_size);
  folder.write("engram_token_map.json",
               nlohmann::json{{"map", classes}, {"classes", config.engram_compressed_vocab_size}}.dump());
}

}  // namespace deepinfer
