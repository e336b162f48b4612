#include "models/deepseek_v41/config.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <new>

#include "base/bounded_file.h"
#include "base/out_of_memory.h"
#include "models/deepseek_v41/config_fields.h"

namespace deepinfer::deepseek_v41 {
namespace {

constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxWidth = int64_t{1} << 20;  // of any dimension: products of two stay far below 2^63
constexpr int64_t kMaxExperts = 1 << 16;
constexpr int64_t kMaxLayerExperts = 1 << 17;  // of all layers: each has six tensors, looked for by name
// What the backends' kernels have room for; a larger model would abort where it is opened or first run.
constexpr int64_t kMaxHeadDim = 512;
constexpr int64_t kMaxExpertsPerToken = 64;
constexpr int64_t kMaxPositions = (int64_t{1} << 31) - 1;  // cached rows are numbered in 32 bits
constexpr int64_t kMaxVocabulary = int64_t{1} << 20;       // of the sampler's integer masses
constexpr int64_t kMaxEngramPrimes = 1024;

int64_t multiple_of(ConfigFields& fields, std::string_view key, int64_t factor, int64_t high) {
  const int64_t value = fields.integer(key, factor, high);
  if (value % factor != 0) fields.fail(key, std::to_string(value), fmt::format("a multiple of {}", factor));
  return value;
}

std::vector<int> layer_ids(ConfigFields& fields, std::string_view key, int64_t layers) {
  const std::vector<int64_t> wide = fields.integers(key, 0, layers - 1, static_cast<size_t>(layers));
  for (size_t i = 1; i < wide.size(); ++i) {
    if (wide[i] <= wide[i - 1])
      fields.fail(fmt::format("{}[{}]", key, i), std::to_string(wide[i]), fmt::format("above {}", wide[i - 1]));
  }
  return {wide.begin(), wide.end()};
}

void read_root(ConfigFields& root, Config& c) {
  root.only("dtype", std::string_view("bfloat16"), true);
  c.bos_token_id = static_cast<int32_t>(root.integer("bos_token_id", 0, kMaxVocabulary - 1));
  c.eos_token_id = static_cast<int32_t>(root.integer("eos_token_id", 0, kMaxVocabulary - 1));
  c.pad_token_id = static_cast<int32_t>(root.integer("pad_token_id", 0, kMaxVocabulary - 1));
  c.image_token_id = static_cast<int32_t>(root.integer("image_token_id", 0, kMaxVocabulary - 1));

  auto q = root.object("quantization_config");
  if (!q) return;
  q->only("quant_method", std::string_view("fp8"), true);
  q->only("activation_scheme", std::string_view("dynamic"), true);
  q->only("scale_fmt", std::string_view("ue8m0"), true);
  q->only("expert_dtype", std::string_view("fp4"), true);
  const auto block = q->integers("weight_block_size", 1, kMaxWidth, 2);
  if (q->status().ok() && block != std::vector<int64_t>{32, 32})
    q->fail("weight_block_size", fmt::format("{} values", block.size()), "[32, 32]");
  root.take_status(*q);
}

void read_vision(ConfigFields& root, VisionConfig& v) {
  auto f = root.object("vision_config");
  if (!f) return;
  f->only("model_type", std::string_view("deepseek_v41_vision"));
  v.num_hidden_layers = f->integer("num_hidden_layers", 1, kMaxLayers);
  v.hidden_size = f->integer("hidden_size", 1, kMaxWidth);
  v.num_attention_heads = f->integer("num_attention_heads", 1, 1024);
  v.intermediate_size = f->integer("intermediate_size", 1, kMaxWidth);
  v.patch_size = f->integer("patch_size", 1, 1024);
  v.rope_theta = f->number("rope_theta", 1, 1e12);
  v.downsample_ratio = f->integer("downsample_ratio", 1, 64);
  v.max_image_tokens = f->integer("max_image_tokens", 1, kMaxWidth);
  v.min_pixels = f->integer("min_pixels", 0, int64_t{1} << 40);
  if (f->has("max_wh_ratio")) v.max_wh_ratio = f->number("max_wh_ratio", 1, 1e6);
  if (f->status().ok() && v.hidden_size % v.num_attention_heads != 0)
    f->fail("hidden_size", std::to_string(v.hidden_size),
            fmt::format("a multiple of num_attention_heads, {}", v.num_attention_heads));
  root.take_status(*f);
}

// Keys with one supported value; a checkpoint that needs another would need other code.
void check_fixed(ConfigFields& t) {
  t.only("hidden_act", std::string_view("silu"));
  t.only("attention_bias", false);
  t.only("attention_dropout", 0.0);
  t.only("num_key_value_heads", 1.0);
  t.only("scoring_func", std::string_view("sqrtsoftplus"));
  t.only("topk_method", std::string_view("noaux_tc"));
  t.only("norm_topk_prob", true);
  t.only("n_shared_experts", 1.0);
  t.only("tie_word_embeddings", false);
  t.only("gate_temp", 1.0);
  t.only("hc_shifted", true);
  t.only("use_fp4_sparse_kv", true);
  t.only("dspark_target_attn_input", true);
}

void read_rope(ConfigFields& t, Config& c) {
  c.rope_theta = t.number("rope_theta", 1, 1e12);
  c.compress_rope_theta = t.number("compress_rope_theta", 1.0001, 1e12);
  if (!t.has("rope_scaling")) return;
  auto r = t.object("rope_scaling");
  if (!r) return;
  r->only(r->has("rope_type") ? "rope_type" : "type", std::string_view("yarn"), true);
  c.rope_scaling.factor = r->number("factor", 1, 1e6);
  c.rope_scaling.beta_fast = r->number("beta_fast", 1e-3, 1e6);
  c.rope_scaling.beta_slow = r->number("beta_slow", 1e-3, 1e6);
  c.rope_scaling.original_max_position_embeddings = r->number("original_max_position_embeddings", 1, 1e12);
  t.take_status(*r);
}

void read_attention(ConfigFields& t, Config& c) {
  c.num_attention_heads = static_cast<int>(t.integer("num_attention_heads", 1, 1024));
  c.qk_rope_head_dim = static_cast<int>(t.integer("qk_rope_head_dim", 64, 64));
  c.head_dim = static_cast<int>(multiple_of(t, "head_dim", 64, kMaxHeadDim));
  c.q_lora_rank = multiple_of(t, "q_lora_rank", 32, kMaxWidth);
  c.o_lora_rank = multiple_of(t, "o_lora_rank", 32, kMaxWidth);
  c.o_groups = static_cast<int>(t.integer("o_groups", 1, 1024));
  if (t.status().ok() && c.num_attention_heads % c.o_groups != 0)
    t.fail("o_groups", std::to_string(c.o_groups),
           fmt::format("a divisor of num_attention_heads, {}", c.num_attention_heads));
  c.sliding_window = static_cast<int>(t.integer("sliding_window", 1, 1 << 16));
}

void read_layers(ConfigFields& t, Config& c) {
  c.num_hidden_layers = static_cast<int>(t.integer("num_hidden_layers", 1, kMaxLayers));
  c.num_nextn_predict_layers = static_cast<int>(t.integer_or("num_nextn_predict_layers", 0, 64, 0));
  const auto ratios = t.integers("compress_ratios", 0, 2, static_cast<size_t>(2 * kMaxLayers));
  if (t.status().ok() && static_cast<int>(ratios.size()) != c.total_layers())
    t.fail("compress_ratios", fmt::format("{} values", ratios.size()),
           fmt::format("num_hidden_layers + num_nextn_predict_layers = {} values", c.total_layers()));
  c.compress_ratios.assign(ratios.begin(), ratios.end());
  c.kv_source_layer_ids = layer_ids(t, "kv_source_layer_ids", c.num_hidden_layers);
  c.index_source_layer_ids = layer_ids(t, "index_source_layer_ids", c.num_hidden_layers);
  if (t.has("index_k_source_layer_ids") &&
      layer_ids(t, "index_k_source_layer_ids", c.num_hidden_layers) != c.kv_source_layer_ids)
    t.fail("index_k_source_layer_ids", "another list", "kv_source_layer_ids itself");
  c.index_n_heads = static_cast<int>(t.integer("index_n_heads", 1, 32));
  c.index_head_dim = static_cast<int>(t.integer("index_head_dim", 128, 128));
  c.index_topk = static_cast<int>(t.integer("index_topk", 1, 1 << 16));
  if (!t.has("candidate_source_layer_id")) return;
  c.candidate_source_layer_id = static_cast<int>(t.integer("candidate_source_layer_id", 0, c.num_hidden_layers - 1));
  c.candidate_topk_blocks = static_cast<int>(multiple_of(t, "candidate_topk_blocks", 8, 4096));
  c.candidate_block_size = static_cast<int>(t.integer("candidate_block_size", 8, 16));
  if (c.candidate_block_size != 8 && c.candidate_block_size != 16)
    t.fail("candidate_block_size", std::to_string(c.candidate_block_size), "8 or 16");
}

// A product of two keys that decides how many tensors there are.
void check_layer_experts(ConfigFields& t, std::string_view layers_key, int64_t layers, std::string_view experts_key,
                         int64_t experts) {
  if (t.status().ok() && layers * experts > kMaxLayerExperts)
    t.fail(experts_key, std::to_string(experts),
           fmt::format("{} x {} up to {}", layers_key, experts_key, kMaxLayerExperts));
}

void read_experts(ConfigFields& t, Config& c) {
  c.moe_intermediate_size = multiple_of(t, "moe_intermediate_size", 32, kMaxWidth);
  c.swiglu_limit = static_cast<float>(t.number("swiglu_limit", 1e-6, 1e6));
  c.n_routed_experts = static_cast<int>(t.integer("n_routed_experts", 1, kMaxExperts));
  check_layer_experts(t, "num_hidden_layers", c.num_hidden_layers, "n_routed_experts", c.n_routed_experts);
  c.num_experts_per_tok =
      static_cast<int>(t.integer("num_experts_per_tok", 1, std::min<int64_t>(c.n_routed_experts, kMaxExpertsPerToken)));
  c.routed_scaling_factor = static_cast<float>(t.number("routed_scaling_factor", 0, 1e6));
}

void read_hyper_connections(ConfigFields& t, Config& c) {
  c.hc_mult = static_cast<int>(t.integer("hc_mult", 4, 4));
  c.hc_sinkhorn_iters = static_cast<int>(t.integer("hc_sinkhorn_iters", 1, 1000));
  c.hc_eps = static_cast<float>(t.number("hc_eps", 0, 1));
  // Zero would make an all-zero row infinite; the smallest normal fp32 number is 1.2e-38.
  c.rms_norm_eps = static_cast<float>(t.number("rms_norm_eps", 1.2e-38, 1));
}

void read_engram(ConfigFields& t, Config& c) {
  if (!t.has("engram_layer_ids")) return;
  c.engram_layer_ids = layer_ids(t, "engram_layer_ids", c.num_hidden_layers);
  if (c.engram_layer_ids.empty()) return;
  const auto layers = static_cast<int64_t>(c.engram_layer_ids.size());
  c.engram_num_embeddings = t.integers("engram_num_embeddings", 1, int64_t{1} << 40, static_cast<size_t>(kMaxLayers));
  if (t.status().ok() && static_cast<int64_t>(c.engram_num_embeddings.size()) != layers)
    t.fail("engram_num_embeddings", fmt::format("{} values", c.engram_num_embeddings.size()),
           fmt::format("one for each of the {} engram_layer_ids", layers));
  c.engram_max_ngram_size = static_cast<int>(t.integer("engram_max_ngram_size", 2, 8));
  c.engram_vocab_size = t.integer("engram_vocab_size", 2, int64_t{1} << 30);
  c.engram_n_heads = static_cast<int>(t.integer("engram_n_heads", 1, 64));
  if (t.status().ok() && layers * c.engram_lookups() > kMaxEngramPrimes)
    t.fail("engram_n_heads", std::to_string(c.engram_n_heads),
           fmt::format("layers x (engram_max_ngram_size - 1) x heads up to {}", kMaxEngramPrimes));
  c.engram_head_dim = multiple_of(t, "engram_head_dim", 128, 1 << 14);
  c.engram_pad_token_id = static_cast<int32_t>(t.integer("engram_pad_token_id", 0, c.vocab_size - 1));
  c.engram_compressed_vocab_size = t.integer("engram_compressed_vocab_size", 1, c.vocab_size);
}

void read_draft(ConfigFields& t, Config& c) {
  if (c.num_nextn_predict_layers == 0) return;
  c.dspark_block_size = static_cast<int>(t.integer("dspark_block_size", 1, 64));
  c.dspark_noise_token_id = static_cast<int32_t>(t.integer("dspark_noise_token_id", 0, c.vocab_size - 1));
  c.dspark_target_layer_ids = layer_ids(t, "dspark_target_layer_ids", c.num_hidden_layers);
  if (t.status().ok() && c.dspark_target_layer_ids.empty())
    t.fail("dspark_target_layer_ids", "empty", "at least one layer");
  c.dspark_markov_rank = multiple_of(t, "dspark_markov_rank", 32, kMaxWidth);
  c.dspark_n_routed_experts = static_cast<int>(t.integer("dspark_n_routed_experts", 1, kMaxExperts));
  check_layer_experts(t, "num_nextn_predict_layers", c.num_nextn_predict_layers, "dspark_n_routed_experts",
                      c.dspark_n_routed_experts);
  c.dspark_num_experts_per_tok = static_cast<int>(
      t.integer("dspark_num_experts_per_tok", 1, std::min<int64_t>(c.dspark_n_routed_experts, kMaxExpertsPerToken)));
}

void check_token_ids(ConfigFields& root, const Config& c) {
  const auto check = [&](std::string_view key, int32_t id) {
    if (id >= c.vocab_size) root.fail(key, std::to_string(id), fmt::format("below vocab_size, {}", c.vocab_size));
  };
  check("bos_token_id", c.bos_token_id);
  check("eos_token_id", c.eos_token_id);
  check("pad_token_id", c.pad_token_id);
  check("image_token_id", c.image_token_id);
}

Result<Config> read_config(std::string_view json, std::string_view source) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  const auto error = parser.parse(json.data(), json.size()).get(document);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS)
    return corrupt_file(fmt::format("{}: not valid JSON: {}", source, simdjson::error_message(error)));
  simdjson::dom::object object;
  if (document.get(object) != simdjson::SUCCESS) return corrupt_file(fmt::format("{}: not a JSON object", source));

  Config c;
  ConfigFields root(object, "", c.values);
  std::string_view type;
  if (object.at_key("model_type").get(type) != simdjson::SUCCESS)
    return corrupt_file(fmt::format("{}: model_type is missing or not a string; allowed: \"{}\"", source, kModelType));
  if (type != kModelType)
    return unsupported(
        fmt::format("{}: model_type is \"{}\"; this build runs: \"{}\"", source, type.substr(0, 80), kModelType));

  read_root(root, c);
  read_vision(root, c.vision);
  // A flat file has the text model's keys at its root; its own model_type is the one checked above.
  const bool nested = root.has("text_config");
  std::optional<ConfigFields> text;
  if (nested) text = root.object("text_config");
  if (!nested) text.emplace(object, "", c.values);
  if (text && root.status().ok()) {
    ConfigFields& t = *text;
    c.vocab_size = t.integer("vocab_size", 2, kMaxVocabulary);
    c.hidden_size = multiple_of(t, "hidden_size", 32, kMaxWidth);
    c.max_position_embeddings = t.integer("max_position_embeddings", 1, kMaxPositions);
    if (nested) t.only("model_type", std::string_view("deepseek_v41_text"));
    check_fixed(t);
    read_layers(t, c);
    read_attention(t, c);
    read_rope(t, c);
    read_experts(t, c);
    read_hyper_connections(t, c);
    read_engram(t, c);
    read_draft(t, c);
    if (t.status().ok()) check_token_ids(root, c);
    root.take_status(t);
  }
  if (!root.status().ok()) return root.status().with_context(source);
  return c;
}

}  // namespace

Result<Config> parse_config(std::string_view json, std::string_view source) {
  return or_out_of_memory([&] { return fmt::format("{} of {} bytes", source, json.size()); },
                          [&] { return read_config(json, source); });
}

Result<Config> load_config(const std::filesystem::path& folder) {
  return or_out_of_memory([] { return "config.json"; },
                          [&]() -> Result<Config> {
                            const std::filesystem::path path = folder / "config.json";
                            DI_ASSIGN_OR_RETURN(const std::string text, read_bounded_file(path, kMaxConfigFileBytes));
                            return parse_config(text, path.string());
                          });
}

}  // namespace deepinfer::deepseek_v41
