#include "bench/synthetic_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

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

// The tensors that need memory: experts once for all layers that share them ("3.12.w1.weight"), the picture encoder
// never.
struct Wanted {
  std::string key;
  DType dtype;
  uint64_t bytes;
};
std::string memory_key(std::string_view name, int expert_layers) {
  const size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return std::string(name);
  int layer = 0;
  const size_t number = name.rfind('.', at - 1) + 1;
  std::from_chars(name.data() + number, name.data() + at, layer);
  return fmt::format("{}.{}", layer % expert_layers, name.substr(at + kExperts.size()));
}

std::vector<Wanted> wanted_tensors(const v41::Config& config, const v41::LayerTable& table, int expert_layers) {
  std::vector<Wanted> list;
  std::map<std::string, bool> seen;
  v41::visit_tensors(config, table, [&](std::string_view name, DType dtype, const Shape& shape) -> const void* {
    if (is_picture_encoder(name)) return nullptr;
    const std::string key = memory_key(name, expert_layers);
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
  v41::Config c = whole_network(released);
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
  return c;
}

v41::Config whole_network(const v41::Config& released) {
  v41::Config c = released;
  c.compress_ratios.resize(static_cast<size_t>(c.num_hidden_layers));
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

SyntheticLayers::SyntheticLayers(const v41::Config& slice, const SyntheticPlan& plan, Memory& memory)
    : config_(slice),
      plan_(plan),
      memory_(memory),
      table_(v41::make_layer_table(slice).value()),
      groups_(v41::make_cache_groups(config_, table_)) {}

SyntheticLayers::~SyntheticLayers() = default;

uint64_t SyntheticLayers::weight_bytes(const v41::Config& slice, int expert_layers) {
  uint64_t bytes = 0;
  for (const Wanted& tensor : wanted_tensors(slice, v41::make_layer_table(slice).value(), expert_layers))
    bytes += aligned(tensor.bytes);
  return bytes;
}

uint64_t SyntheticLayers::cache_bytes(const v41::Config& slice, int64_t context) {
  const CacheLayout layout = v41::make_cache_groups(slice, v41::make_layer_table(slice).value()).layout;
  const int64_t blocks = (context + layout.tokens_per_block - 1) / layout.tokens_per_block;
  return static_cast<uint64_t>(layout.bytes_per_sequence() + blocks * layout.bytes_per_block());
}

Status SyntheticLayers::generate_weights() {
  DI_ASSIGN_OR_RETURN(weight_memory_, Buffer::allocate(weight_bytes(config_, plan_.expert_layers), memory_));
  const std::vector<Wanted> wanted = wanted_tensors(config_, table_, plan_.expert_layers);
  std::map<std::string, std::byte*> places;
  std::vector<std::byte*> starts;
  uint64_t offset = 0;
  for (const Wanted& tensor : wanted) {
    starts.push_back(weight_memory_.data() + offset);
    places[tensor.key] = starts.back();
    offset += aligned(tensor.bytes);
  }
  if (memory_.is_host()) {
    ThreadPool pool;
    pool.parallel_for(static_cast<int64_t>(wanted.size()), [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      generate_weight(wanted[at].key, wanted[at].dtype, starts[at], wanted[at].bytes);
    });
  } else {
    DeviceWeights device(memory_);
    for (size_t i = 0; i < wanted.size(); ++i)
      DI_RETURN_IF_ERROR(device.generate(wanted[i].key, wanted[i].dtype, starts[i], wanted[i].bytes));
    memory_.finish();
  }
  weights_ = v41::visit_tensors(config_, table_, [&](std::string_view name, DType, const Shape&) -> const void* {
    if (is_picture_encoder(name)) return nullptr;
    std::byte* place = places.at(memory_key(name, plan_.expert_layers));
    if (name.ends_with(".ffn.gate.bias")) gate_biases_.push_back(reinterpret_cast<float*>(place));
    return place;
  });
  return {};
}

Status SyntheticLayers::make_caches(int64_t sequences, int64_t context) {
  DI_CHECK(sequences <= plan_.sequences && context <= plan_.context, "within the plan");
  caches_.clear();
  tokens_.clear();
  for (int64_t s = 0; s < sequences; ++s) {
    DI_ASSIGN_OR_RETURN(SequenceCache cache, SequenceCache::create(groups_.layout, memory_));
    DI_RETURN_IF_ERROR(cache.reserve(context));
    caches_.push_back(std::move(cache));
    std::vector<int32_t>& tokens = tokens_.emplace_back(static_cast<size_t>(context));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(((i + 7919u * static_cast<size_t>(s)) * 2654435761u) %
                                       static_cast<size_t>(config_.vocab_size));
  }
  return {};
}

Result<std::unique_ptr<SyntheticLayers>> SyntheticLayers::make(const v41::Config& slice, const SyntheticPlan& plan,
                                                               Ops& ops) {
  std::unique_ptr<SyntheticLayers> layers(new SyntheticLayers(slice, plan, ops.memory()));
  DI_RETURN_IF_ERROR(layers->generate_weights());
  DI_RETURN_IF_ERROR(layers->make_caches(1, plan.context));
  const StepLimits limits{
      .rows = plan.rows, .sequences = plan.sequences, .logit_rows = plan.sequences, .max_context = plan.context};
  DI_ASSIGN_OR_RETURN(v41::Activations activations, v41::Activations::plan(layers->config_, limits, ops.memory()));
  DI_RETURN_IF_ERROR(ops.prepare(v41::ops_limits(layers->config_, limits)));
  layers->forward_ = std::make_unique<v41::Forward>(
      v41::ForwardParts{layers->config_, layers->table_, layers->groups_, layers->hash_, layers->weights_, ops}, limits,
      std::move(activations));
  if (ops.memory().is_host()) {
    layers->probe_ = std::make_unique<FiniteProbe>(slice.num_hidden_layers, layers->finite_);
    layers->forward_->probe = layers->probe_.get();
  }
  return layers;
}

void SyntheticLayers::fill_records() {
  // As e4m3 at most 448 and no NaN, as a power of two at most 1/2; FP4 takes any.
  constexpr uint64_t kNumbers = uint64_t{1} << 20;
  std::vector<std::byte> bytes(kNumbers);
  uint32_t state = 1;
  for (std::byte& b : bytes) b = std::byte(0x70 | (((state = state * 1664525u + 1013904223u) >> 24) & 0x0e));
  Buffer numbers = Buffer::allocate(kNumbers, memory_).value();
  memory_.write(numbers.data(), bytes.data(), kNumbers);
  uint64_t from = 0;
  const auto fill = [&](std::byte* to, int64_t count) {
    const auto size = static_cast<uint64_t>(count);
    DI_CHECK(size <= kNumbers, "the records of a block are few");
    from = from + size > kNumbers ? 0 : from;
    memory_.copy(to, numbers.data() + from, size);
    from += size;
  };
  for (const SequenceCache& cache : caches_) {
    const CacheView view = cache.view();
    for (const BlockList& list : view.histories)
      for (int64_t b = 0; b < list.count; ++b) fill(list.blocks[b], list.rows_per_block * list.record_bytes);
    size_t ring = 0;
    for (const CacheGroupSpec& group : groups_.layout.groups) {
      if (!group.is_ring()) continue;
      for (size_t i = 0; i < group.layers.size(); ++i, ++ring)  // a running state is no record
        if (group.retention == CacheRetention::kSlidingWindow)
          fill(view.rings[ring].data, view.rings[ring].slots * view.rings[ring].record_bytes);
    }
  }
  memory_.finish();
}

MatrixView<float> SyntheticLayers::run(int64_t position, int64_t rows, int64_t sequences, int64_t logits) {
  std::vector<StepSequence> step(static_cast<size_t>(sequences));
  for (size_t s = 0; s < step.size(); ++s) {
    step[s].cache = caches_[s].view();
    step[s].tokens = std::span<const int32_t>(tokens_[s]).first(static_cast<size_t>(position + rows));
    step[s].rows = rows;
    step[s].position = position;
    step[s].logits_from = position + rows - logits;
    step[s].choices = listener_;
  }
  return forward_->run(step);
}

int64_t SyntheticLayers::distinct_experts(int64_t position, int64_t sequences) {
  struct Chosen final : ChoiceSink {
    std::set<std::pair<int64_t, int32_t>> all;
    void routed(int64_t, int64_t router, std::span<const int32_t> experts) override {
      for (const int32_t expert : experts) all.insert({router, expert});
    }
    void selected(int64_t, int64_t, std::span<const int32_t>) override {}
  } chosen;
  listener_ = &chosen;
  run(position, 1, sequences, 1);
  listener_ = nullptr;
  return static_cast<int64_t>(chosen.all.size());
}

void SyntheticLayers::set_gate_bias(const std::vector<float>& bias, size_t layer) {
  memory_.write(gate_biases_[layer], bias.data(), bias.size() * sizeof(float));
}

void SyntheticLayers::force_experts(int64_t first) {
  for (size_t layer = 0; layer < gate_biases_.size(); ++layer) {
    std::vector<float> bias(static_cast<size_t>(config_.n_routed_experts));
    for (int k = 0; k < config_.num_experts_per_tok; ++k) bias[static_cast<size_t>(first++) % bias.size()] = 100;
    set_gate_bias(bias, layer);
  }
}

void SyntheticLayers::free_experts() {
  const std::vector<float> none(static_cast<size_t>(config_.n_routed_experts));
  for (size_t layer = 0; layer < gate_biases_.size(); ++layer) set_gate_bias(none, layer);
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

uint64_t SyntheticLayers::record_bytes_of_token(int64_t position) const {
  int64_t records = 0;
  for (int layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const v41::LayerSpec& spec = table_[layer];
    records += std::min<int64_t>(position, config_.sliding_window) * fp8_record_bytes(config_.head_dim);
    records +=
        std::min<int64_t>(visible_rows(spec, position), config_.index_topk) * main_kv_record_bytes(config_.head_dim);
    if (spec.owns_index()) records += visible_rows(spec, position) * index_record_bytes(config_.index_head_dim);
  }
  return static_cast<uint64_t>(records);
}

uint64_t SyntheticLayers::bytes_of_token(int64_t position) const {
  const uint64_t experts = static_cast<uint64_t>(config_.num_hidden_layers) *
                           static_cast<uint64_t>(config_.num_experts_per_tok) * expert_bytes();
  return dense_bytes() + experts + record_bytes_of_token(position);
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
