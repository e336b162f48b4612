#include "bench/synthetic_layers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "base/thread_pool.h"
#include "bench/generated_weights.h"
#include "models/deepseek_v41/activations.h"
#include "models/deepseek_v41/step_work.h"
#include "models/deepseek_v41/tensor_names.h"
#include "tensor/formats.h"

namespace deepinfer::bench {
namespace v41 = deepseek_v41;
namespace {

constexpr int64_t kVocabulary = 1024;
constexpr std::string_view kExperts = ".ffn.experts.";

uint64_t tensor_bytes(DType dtype, const Shape& shape) {
  return static_cast<uint64_t>(shape.elements()) * static_cast<uint64_t>(bits(dtype)) / 8;
}
uint64_t aligned(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

bool is_picture_encoder(std::string_view name) {
  return name.starts_with("vision.") || name.starts_with("aligner.") || name.starts_with("image_");
}

// The tensors that need memory: experts once for all layers ("12.w1.weight"), the picture encoder never.
struct Wanted {
  std::string key;
  DType dtype;
  uint64_t bytes;
};
std::string memory_key(std::string_view name) {
  const size_t at = name.find(kExperts);
  return std::string(at == std::string_view::npos ? name : name.substr(at + kExperts.size()));
}

std::vector<Wanted> wanted_tensors(const v41::Config& config, const v41::LayerTable& table) {
  std::vector<Wanted> list;
  std::map<std::string, bool> seen;
  v41::visit_tensors(config, table, [&](std::string_view name, DType dtype, const Shape& shape) -> const void* {
    if (is_picture_encoder(name)) return nullptr;
    const std::string key = memory_key(name);
    if (!std::exchange(seen[key], true)) list.push_back({key, dtype, tensor_bytes(dtype, shape)});
    return nullptr;
  });
  return list;
}

// Products of one token in one layer, its routed experts apart.
std::vector<LinearWeight> dense_products(const v41::LayerWeights& layer) {
  const v41::AttentionWeights& a = layer.attention;
  const v41::FeedForwardWeights& f = layer.feed_forward;
  std::vector<LinearWeight> list = {a.wq_a, a.wq_b,      a.wkv,       a.wo_a,     a.wo_b,
                                    f.gate, f.shared.w1, f.shared.w3, f.shared.w2};
  for (const LinearWeight& w :
       {a.compressor.wkv, a.compressor.wgate, a.indexer.wq_b, a.indexer.weights_proj, a.indexer.wk})
    if (!w.empty()) list.push_back(w);
  return list;
}

uint64_t mix_bytes(const v41::Config& c) {
  const int64_t mixes = 2 * c.hc_mult + c.hc_mult * c.hc_mult;
  return static_cast<uint64_t>(2 * mixes * c.hc_mult * c.hidden_size) * sizeof(float);
}

int64_t visible_rows(const v41::LayerSpec& spec, int64_t position) {
  return spec.ratio == 0 ? 0 : (position + 1) / spec.ratio;
}

}  // namespace

v41::Config layer_slice(const v41::Config& released, int layers, int experts) {
  v41::Config c = released;
  const int encoder = layers / 2;
  c.num_hidden_layers = layers;
  c.n_routed_experts = experts;
  c.vocab_size = kVocabulary;
  c.compress_ratios.assign(static_cast<size_t>(layers), 1);
  std::fill_n(c.compress_ratios.begin(), encoder, 2);
  c.kv_source_layer_ids.clear();
  if (encoder > 0) c.kv_source_layer_ids.push_back(0);
  c.kv_source_layer_ids.push_back(encoder);
  c.index_source_layer_ids = c.kv_source_layer_ids;
  for (int layer = encoder + 4; layer < layers; layer += 4) c.index_source_layer_ids.push_back(layer);
  c.candidate_source_layer_id = encoder;
  c.engram_layer_ids.clear();
  c.engram_num_embeddings.clear();
  c.engram_max_ngram_size = 0;
  c.engram_n_heads = 0;
  c.num_nextn_predict_layers = 0;
  c.dspark_block_size = 0;
  c.dspark_target_layer_ids.clear();
  c.dspark_markov_rank = 0;
  c.dspark_n_routed_experts = 0;
  c.dspark_num_experts_per_tok = 0;
  return c;
}

class SyntheticLayers::FiniteProbe : public v41::LayerProbe {
 public:
  FiniteProbe(int last, bool& finite) : last_(last), finite_(finite) {}
  void before_layer(int layer, MatrixView<bf16> streams, MatrixView<float>) override {
    if (layer != last_) return;
    finite_ = true;
    for (int64_t row = 0; row < streams.rows; ++row)
      for (int64_t column = 0; column < streams.columns; ++column)
        finite_ = finite_ && std::isfinite(to_float(streams.row(row)[column]));
  }
  void after_selection(int, MatrixView<const int32_t>, MatrixView<const int32_t>) override {}
  void taps(MatrixView<const bf16>) override {}

 private:
  int last_;
  bool& finite_;
};

SyntheticLayers::SyntheticLayers(const v41::Config& slice)
    : config_(slice), table_(v41::make_layer_table(slice).value()), groups_(v41::make_cache_groups(config_, table_)) {}

SyntheticLayers::~SyntheticLayers() = default;

uint64_t SyntheticLayers::weight_bytes(const v41::Config& slice) {
  uint64_t bytes = 0;
  for (const Wanted& tensor : wanted_tensors(slice, v41::make_layer_table(slice).value()))
    bytes += aligned(tensor.bytes);
  return bytes;
}

Status SyntheticLayers::generate_weights() {
  DI_ASSIGN_OR_RETURN(Buffer memory, Buffer::allocate(weight_bytes(config_)));
  const std::vector<Wanted> wanted = wanted_tensors(config_, table_);
  std::map<std::string, std::byte*> places;
  std::vector<std::byte*> starts;
  uint64_t offset = 0;
  for (const Wanted& tensor : wanted) {
    starts.push_back(memory.data() + offset);
    places[tensor.key] = starts.back();
    offset += aligned(tensor.bytes);
  }
  ThreadPool pool;
  pool.parallel_for(static_cast<int64_t>(wanted.size()), [&](int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    generate_weight(wanted[at].key, wanted[at].dtype, starts[at], wanted[at].bytes);
  });
  weights_ = v41::visit_tensors(config_, table_, [&](std::string_view name, DType, const Shape&) -> const void* {
    if (is_picture_encoder(name)) return nullptr;
    std::byte* place = places.at(memory_key(name));
    if (name.ends_with(".ffn.gate.bias")) gate_biases_.push_back(reinterpret_cast<float*>(place));
    return place;
  });
  memory_.push_back(std::move(memory));
  return {};
}

Result<std::unique_ptr<SyntheticLayers>> SyntheticLayers::make(const v41::Config& slice, int64_t rows, int64_t context,
                                                               Ops& ops) {
  std::unique_ptr<SyntheticLayers> layers(new SyntheticLayers(slice));
  DI_RETURN_IF_ERROR(layers->generate_weights());
  DI_ASSIGN_OR_RETURN(SequenceCache cache, SequenceCache::create(layers->groups_.layout, ops.memory()));
  DI_RETURN_IF_ERROR(cache.reserve(context));
  layers->cache_ = std::make_unique<SequenceCache>(std::move(cache));
  layers->tokens_.resize(static_cast<size_t>(context));
  for (size_t i = 0; i < layers->tokens_.size(); ++i)
    layers->tokens_[i] = static_cast<int32_t>((i * 2654435761u) % kVocabulary);
  const StepLimits limits{.rows = rows, .sequences = 1, .logit_rows = 1, .max_context = context};
  DI_ASSIGN_OR_RETURN(v41::Activations activations, v41::Activations::plan(layers->config_, limits, ops.memory()));
  DI_RETURN_IF_ERROR(ops.prepare(v41::ops_limits(layers->config_, limits)));
  layers->forward_ = std::make_unique<v41::Forward>(
      v41::ForwardParts{layers->config_, layers->table_, layers->groups_, layers->hash_, layers->weights_, ops}, limits,
      std::move(activations));
  layers->probe_ = std::make_unique<FiniteProbe>(slice.num_hidden_layers, layers->finite_);
  layers->forward_->probe = layers->probe_.get();
  return layers;
}

void SyntheticLayers::run(int64_t position, int64_t rows) {
  StepSequence sequence;
  sequence.cache = cache_->view();
  sequence.tokens = std::span<const int32_t>(tokens_).first(static_cast<size_t>(position + rows));
  sequence.rows = rows;
  sequence.position = position;
  sequence.logits_from = position + rows;
  forward_->run({&sequence, 1});
}

void SyntheticLayers::force_experts(int64_t first) {
  free_experts();
  const int64_t experts = config_.n_routed_experts;
  for (float* bias : gate_biases_)
    for (int k = 0; k < config_.num_experts_per_tok; ++k) bias[first++ % experts] = 100;
}

void SyntheticLayers::free_experts() {
  for (float* bias : gate_biases_) std::fill_n(bias, config_.n_routed_experts, 0.0f);
}

uint64_t SyntheticLayers::dense_bytes() const {
  uint64_t bytes = 0;
  for (const v41::LayerWeights& layer : weights_.layers) {
    for (const LinearWeight& weight : dense_products(layer)) bytes += static_cast<uint64_t>(weight.bytes());
    bytes += mix_bytes(config_);
  }
  return bytes;
}

uint64_t SyntheticLayers::expert_bytes() const {
  const ExpertWeights& expert = weights_.layers.front().feed_forward.experts.front();
  return static_cast<uint64_t>(expert.w1.bytes() + expert.w3.bytes() + expert.w2.bytes());
}

uint64_t SyntheticLayers::bytes_of_token(int64_t position) const {
  const uint64_t experts = static_cast<uint64_t>(config_.num_hidden_layers) *
                           static_cast<uint64_t>(config_.num_experts_per_tok) * expert_bytes();
  int64_t records = 0;
  for (int layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const v41::LayerSpec& spec = table_[layer];
    records += std::min<int64_t>(position, config_.sliding_window) * fp8_record_bytes(config_.head_dim);
    records +=
        std::min<int64_t>(visible_rows(spec, position), config_.index_topk) * main_kv_record_bytes(config_.head_dim);
    if (spec.owns_index()) records += visible_rows(spec, position) * index_record_bytes(config_.index_head_dim);
  }
  return dense_bytes() + experts + static_cast<uint64_t>(records);
}

uint64_t SyntheticLayers::weight_bytes_of_step(int64_t rows) const {
  const double experts = config_.n_routed_experts;
  const double missed = std::pow(1 - config_.num_experts_per_tok / experts, static_cast<double>(rows));
  const double chosen = config_.num_hidden_layers * experts * (1 - missed);
  return dense_bytes() + static_cast<uint64_t>(chosen * static_cast<double>(expert_bytes()));
}

double SyntheticLayers::operations(int64_t position, int64_t rows) const {
  StepSequence sequence;
  sequence.rows = rows;
  sequence.position = position;
  sequence.logits_from = position + rows;
  return v41::StepWorkCount(config_, table_, weights_).count({&sequence, 1}).total;
}

}  // namespace deepinfer::bench
