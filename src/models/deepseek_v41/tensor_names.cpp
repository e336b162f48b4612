#include "models/deepseek_v41/tensor_names.h"

#include <fmt/format.h>

#include <string>

namespace deepinfer::deepseek_v41 {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Names below one prefix, in the storage forms of the checkpoint.
class Names {
 public:
  Names(TensorVisitor visit, std::string prefix) : visit_(visit), prefix_(std::move(prefix)) {}

  Names below(std::string_view part) const { return {visit_, prefix_ + std::string(part)}; }

  const bf16* bf16_tensor(std::string_view name, const Shape& shape) const {
    return static_cast<const bf16*>(visit(name, DType::kBF16, shape));
  }
  const float* f32_tensor(std::string_view name, const Shape& shape) const {
    return static_cast<const float*>(visit(name, DType::kF32, shape));
  }
  const uint8_t* bytes(std::string_view name, DType dtype, const Shape& shape) const {
    return static_cast<const uint8_t*>(visit(name, dtype, shape));
  }
  const bf16* norm(std::string_view name, int64_t width) const {
    return bf16_tensor(std::string(name) + ".weight", {width});
  }
  LinearWeight bf16_linear(std::string_view name, int64_t n, int64_t k) const {
    return {LinearWeight::Format::kBf16, n, k, bf16_tensor(std::string(name) + ".weight", {n, k}), nullptr};
  }
  LinearWeight fp8_linear(std::string_view name, int64_t n, int64_t k) const {
    const std::string base(name);
    LinearWeight w{LinearWeight::Format::kFp8, n, k, nullptr, nullptr};
    w.data = bytes(base + ".weight", DType::kF8E4M3, {n, k});
    w.scale = bytes(base + ".scale", DType::kF8E8M0, {ceil_div(n, 32), ceil_div(k, 32)});
    return w;
  }
  LinearWeight fp4_linear(std::string_view name, int64_t n, int64_t k) const {
    const std::string base(name);
    LinearWeight w{LinearWeight::Format::kFp4, n, k, nullptr, nullptr};
    w.data = bytes(base + ".weight", DType::kI8, {n, k / 2});
    w.scale = bytes(base + ".scale", DType::kF8E8M0, {n, k / 32});
    return w;
  }

 private:
  const void* visit(std::string_view name, DType dtype, const Shape& shape) const {
    return visit_(prefix_ + std::string(name), dtype, shape);
  }

  TensorVisitor visit_;
  std::string prefix_;
};

HyperConnectionWeights hyper_connection(const Config& c, const Names& names, std::string_view site) {
  const int64_t copies = c.hc_mult;
  const int64_t mixes = 2 * copies + copies * copies;
  HyperConnectionWeights w;
  w.fn = names.f32_tensor(fmt::format("hc_{}_fn", site), {mixes, copies * c.hidden_size});
  w.base = names.f32_tensor(fmt::format("hc_{}_base", site), {mixes});
  w.scale = names.f32_tensor(fmt::format("hc_{}_scale", site), {3});
  w.sinkhorn_iterations = c.hc_sinkhorn_iters;
  w.hc_eps = c.hc_eps;
  w.norm_eps = c.rms_norm_eps;
  return w;
}

AttentionWeights attention(const Config& c, const LayerSpec& spec, const Names& layer) {
  const int64_t d = c.hidden_size;
  const int64_t wide = int64_t{c.num_attention_heads} * c.head_dim;
  const Names names = layer.below("attn.");
  AttentionWeights w;
  w.input_norm = layer.norm("attn_norm", d);
  w.sink = names.f32_tensor("attn_sink", {c.num_attention_heads});
  w.q_norm = names.norm("q_norm", c.q_lora_rank);
  w.kv_norm = names.norm("kv_norm", c.head_dim);
  w.wq_a = names.fp8_linear("wq_a", c.q_lora_rank, d);
  w.wq_b = names.fp8_linear("wq_b", wide, c.q_lora_rank);
  w.wkv = names.fp8_linear("wkv", c.head_dim, d);
  w.wo_a = names.fp8_linear("wo_a", c.o_groups * c.o_lora_rank, wide / c.o_groups);
  w.wo_b = names.fp8_linear("wo_b", d, c.o_groups * c.o_lora_rank);
  if (spec.owns_kv()) {
    w.compressor.norm = names.norm("compressor.norm", c.head_dim);
    w.compressor.wkv = names.bf16_linear("compressor.wkv", c.head_dim, d);
    if (spec.ratio == 2) w.compressor.wgate = names.bf16_linear("compressor.wgate", c.head_dim, d);
    w.indexer.wk = names.bf16_linear("indexer.wk", c.index_head_dim, c.head_dim);
    w.indexer.key_norm = names.norm("indexer.k_norm", c.index_head_dim);
  }
  if (spec.owns_index()) {
    w.indexer.wq_b = names.fp8_linear("indexer.wq_b", int64_t{c.index_n_heads} * c.index_head_dim, c.q_lora_rank);
    w.indexer.weights_proj = names.bf16_linear("indexer.weights_proj", c.index_n_heads, d);
  }
  return w;
}

FeedForwardWeights feed_forward(const Config& c, int experts, const Names& layer) {
  const int64_t d = c.hidden_size;
  const int64_t f = c.moe_intermediate_size;
  const Names names = layer.below("ffn.");
  FeedForwardWeights w;
  w.input_norm = layer.norm("ffn_norm", d);
  w.gate = names.bf16_linear("gate", experts, d);
  w.bias = names.f32_tensor("gate.bias", {experts});
  w.bias_image = names.f32_tensor("gate.bias_vl", {experts});
  w.experts.reserve(static_cast<size_t>(experts));
  for (int e = 0; e < experts; ++e) {
    const Names expert = names.below(fmt::format("experts.{}.", e));
    w.experts.push_back({expert.fp4_linear("w1", f, d), expert.fp4_linear("w3", f, d), expert.fp4_linear("w2", d, f)});
  }
  const Names shared = names.below("shared_experts.");
  w.shared = {shared.fp8_linear("w1", f, d), shared.fp8_linear("w3", f, d), shared.fp8_linear("w2", d, f)};
  return w;
}

LayerWeights layer_weights(const Config& c, const LayerSpec& spec, int experts, const Names& names) {
  LayerWeights w;
  w.attention_mix = hyper_connection(c, names, "attn");
  w.feed_forward_mix = hyper_connection(c, names, "ffn");
  w.attention = attention(c, spec, names);
  w.feed_forward = feed_forward(c, experts, names);
  return w;
}

EngramWeights engram(const Config& c, int64_t rows, const Names& names) {
  EngramWeights w;
  w.table.rows = rows;
  w.table.width = c.engram_head_dim;
  w.table.weight = names.bytes("embed.weight", DType::kF8E4M3, {rows, c.engram_head_dim});
  w.table.scale = names.bytes("embed.scale", DType::kF8E8M0, {rows, c.engram_head_dim / 32});
  w.query_weight = names.bf16_tensor("q_weight", {c.hc_mult, c.hidden_size});
  w.key_weight = names.bf16_tensor("k_weight", {c.hc_mult, c.hidden_size});
  w.wkv = names.fp8_linear("wkv", (c.hc_mult + 1) * c.hidden_size, c.engram_lookups() * c.engram_head_dim);
  return w;
}

// The picture encoder is checked but not bound: text generation does not read it.
void vision(const Config& c, const Names& names) {
  const VisionConfig& v = c.vision;
  const int64_t d = c.hidden_size;
  const int64_t h = v.hidden_size;
  const auto linear = [&](std::string_view name, int64_t n, int64_t k) {
    names.bf16_tensor(std::string(name) + ".weight", {n, k});
    names.bf16_tensor(std::string(name) + ".bias", {n});
  };
  for (const char* name : {"image_start", "image_end", "image_newline"}) names.bf16_tensor(name, {d});
  linear("aligner.w1", d, v.downsample_ratio * v.downsample_ratio * h);
  linear("aligner.w2", d, d);
  linear("vision.patch_embed.proj", h, 3 * v.patch_size * v.patch_size);
  for (int64_t b = 0; b < v.num_hidden_layers; ++b) {
    const std::string block = fmt::format("vision.blocks.{}.", b);
    linear(block + "attn.wqkv", 3 * h, h);
    linear(block + "attn.wo", h, h);
    names.bf16_linear(block + "mlp.w1", 2 * v.intermediate_size, h);
    names.bf16_linear(block + "mlp.w2", h, v.intermediate_size);
    names.norm(block + "norm1", h);
    names.norm(block + "norm2", h);
  }
  names.norm("vision.norm", h);
}

}  // namespace

Weights visit_tensors(const Config& c, const LayerTable& table, TensorVisitor visit) {
  const Names root(visit, "");
  Weights w;
  w.embed = {root.bf16_tensor("embed.weight", {c.vocab_size, c.hidden_size}), c.vocab_size, c.hidden_size};
  w.head = root.bf16_linear("head", c.vocab_size, c.hidden_size);
  w.norm = root.norm("norm", c.hidden_size);
  w.engrams.resize(c.engram_layer_ids.size());
  w.layers.reserve(static_cast<size_t>(c.total_layers()));
  for (int l = 0; l < c.num_hidden_layers; ++l) {
    const Names names = root.below(fmt::format("layers.{}.", l));
    w.layers.push_back(layer_weights(c, table[l], c.n_routed_experts, names));
    if (const auto i = table[l].engram; i >= 0) {
      w.engrams[static_cast<size_t>(i)] =
          engram(c, c.engram_num_embeddings[static_cast<size_t>(i)], names.below("engram."));
    }
  }
  for (int k = 0; k < c.num_nextn_predict_layers; ++k) {
    const Names names = root.below(fmt::format("mtp.{}.", k));
    w.layers.push_back(layer_weights(c, table[c.num_hidden_layers + k], c.dspark_n_routed_experts, names));
    if (k == 0) {
      const auto taps = static_cast<int64_t>(c.dspark_target_layer_ids.size());
      w.draft.main_proj = names.fp8_linear("main_proj", c.hidden_size, taps * c.hidden_size);
      w.draft.main_norm = names.norm("main_norm", c.hidden_size);
    }
    if (k == c.num_nextn_predict_layers - 1) {
      const int64_t rank = c.dspark_markov_rank;
      w.draft.norm = names.norm("norm", c.hidden_size);
      w.draft.markov_embed = {names.bf16_tensor("markov_head.embed.weight", {c.vocab_size, rank}), c.vocab_size, rank};
      w.draft.markov_head = names.bf16_linear("markov_head.head", c.vocab_size, rank);
      w.draft.confidence = names.bf16_linear("confidence_head.proj", 1, c.hidden_size + rank);
    }
  }
  vision(c, root);
  return w;
}

TensorUse tensor_use(std::string_view name) {
  if (name.find(".ffn.experts.") != std::string_view::npos) return TensorUse::kExpert;
  if (name.find(".engram.embed.") != std::string_view::npos) return TensorUse::kEngramTable;
  for (const std::string_view picture : {"vision.", "aligner.", "image_"}) {
    if (name.starts_with(picture)) return TensorUse::kPicture;
  }
  return TensorUse::kOperand;
}

}  // namespace deepinfer::deepseek_v41
