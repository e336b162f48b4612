#include "models/deepseek_v41/step_work.h"

#include <algorithm>

#include "models/deepseek_v41/row_plan.h"

namespace deepinfer::deepseek_v41 {
namespace {

double multiply_adds(const LinearWeight& weight) {
  return static_cast<double>(weight.n) * static_cast<double>(weight.k);
}

double multiply_adds(const ExpertWeights& expert) {
  return multiply_adds(expert.w1) + multiply_adds(expert.w3) + multiply_adds(expert.w2);
}

// Rows that are looked at where only the candidate blocks compete: the newest block, which may be part of one, is
// always among them.
int64_t candidate_rows(int64_t visible, int64_t block, int64_t most_blocks) {
  const int64_t blocks = (visible + block - 1) / block;
  return blocks <= most_blocks ? visible : (most_blocks - 1) * block + visible - (blocks - 1) * block;
}

}  // namespace

StepWorkCount::StepWorkCount(const Config& config, const LayerTable& table, const Weights& weights)
    : config_(config), table_(table), weights_(weights) {
  for (int layer = 0; layer < table.layer_count; ++layer) {
    const LayerProducts& one = layers_.emplace_back(products_of(layer));
    whole_.every += one.every;
    whole_.arrive += one.arrive;
    whole_.window += one.window;
    whole_.query += one.query;
    KeyClass keys = key_class(layer);
    const auto same = std::find_if(key_classes_.begin(), key_classes_.end(), [&](KeyClass known) {
      known.layers = keys.layers;
      return known == keys;
    });
    if (same == key_classes_.end()) {
      key_classes_.push_back(keys);
    } else {
      ++same->layers;
    }
  }
}

StepWorkCount::LayerProducts StepWorkCount::products_of(int layer) const {
  const LayerSpec& spec = table_[layer];
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const AttentionWeights& a = w.attention;
  const FeedForwardWeights& f = w.feed_forward;
  const double copies = config_.hc_mult;
  LayerProducts products;
  if (spec.engram >= 0) products.every = multiply_adds(weights_.engrams[static_cast<size_t>(spec.engram)].wkv);
  if (spec.owns_kv()) {
    // Where every row is a compressed row of its own its latent counts as a row.
    products.arrive = multiply_adds(a.compressor.wkv) + multiply_adds(a.compressor.wgate);
    products.group = multiply_adds(a.indexer.wk);
  }
  products.window = multiply_adds(a.wkv);
  products.query = multiply_adds(a.wq_a) + multiply_adds(a.wq_b) + multiply_adds(a.wo_a) + multiply_adds(a.wo_b) +
                   multiply_adds(f.gate) + multiply_adds(f.shared) +
                   config_.num_experts_per_tok * multiply_adds(f.experts.front()) +
                   2 * (2 * copies + copies * copies) * copies * static_cast<double>(config_.hidden_size);
  if (spec.owns_index()) products.query += multiply_adds(a.indexer.wq_b) + multiply_adds(a.indexer.weights_proj);
  return products;
}

StepWorkCount::KeyClass StepWorkCount::key_class(int layer) const {
  const LayerSpec& spec = table_[layer];
  KeyClass keys;
  keys.selects = spec.index_source >= 0;
  keys.ratio = keys.selects ? spec.ratio : 0;
  keys.scores = spec.owns_index();
  keys.from_candidates = keys.scores && spec.uses_candidates;
  keys.layers = 1;
  return keys;
}

double StepWorkCount::attention(const KeyClass& keys, int64_t position, int64_t visible_window) const {
  int64_t attended = std::min<int64_t>(position + 1 - visible_window, config_.sliding_window);
  double scores = 0;
  if (keys.selects) {
    const int64_t visible = (position + 1) / keys.ratio;
    int64_t competing = visible;
    if (keys.from_candidates)
      competing = candidate_rows(visible, config_.candidate_block_size, config_.candidate_topk_blocks);
    attended += std::min<int64_t>(competing, config_.index_topk);
    if (keys.scores) scores = static_cast<double>(competing) * config_.index_n_heads * config_.index_head_dim;
  }
  return 2.0 * static_cast<double>(attended) * config_.num_attention_heads * config_.head_dim + scores;
}

StepWork StepWorkCount::count(std::span<const StepSequence> step) const {
  double attention = 0, products = 0;
  for (const StepSequence& s : step) {
    const bool whole =
        s.rule.kind == RowRule::Kind::kEveryRow || (s.rule.kind == RowRule::Kind::kExact && s.position >= s.rule.from);
    if (whole) {
      add_whole(s, attention, products);
    } else {
      for (int layer = 0; layer < table_.layer_count; ++layer) add_layer(s, layer, attention, products);
    }
    const int64_t end = s.position + s.rows;
    products += static_cast<double>(end - std::clamp(s.logits_from, s.position, end)) * multiply_adds(weights_.head);
  }
  return {.attention = 2 * attention, .total = 2 * (attention + products)};
}

void StepWorkCount::add_whole(const StepSequence& s, double& attention, double& products) const {
  products += static_cast<double>(s.rows) * (whole_.every + whole_.arrive + whole_.window + whole_.query);
  for (int layer = 0; layer < table_.layer_count; ++layer) {
    const int ratio = table_[layer].ratio;
    const double group = layers_[static_cast<size_t>(layer)].group;
    if (group > 0) products += group * static_cast<double>((s.position + s.rows) / ratio - s.position / ratio);
  }
  for (int64_t position = s.position; position < s.position + s.rows; ++position) {
    for (const KeyClass& keys : key_classes_) attention += keys.layers * this->attention(keys, position, 0);
  }
}

void StepWorkCount::add_layer(const StepSequence& s, int layer, double& attention, double& products) const {
  const LayerProducts& p = layers_[static_cast<size_t>(layer)];
  const LayerCut cut = layer_cut(config_, table_, s.rule, layer);
  const int64_t end = s.position + s.rows;
  const auto rows_from = [&](int64_t first) { return static_cast<double>(end - std::clamp(first, s.position, end)); };
  products += rows_from(0) * p.every + rows_from(cut.arrive) * p.arrive + rows_from(cut.window) * p.window +
              rows_from(cut.query) * p.query;
  if (p.group > 0) {
    const int ratio = table_[layer].ratio;
    products += p.group * static_cast<double>(end / ratio - std::clamp(cut.arrive, s.position, end) / ratio);
  }
  const KeyClass keys = key_class(layer);
  for (int64_t position = std::max(s.position, cut.query); position < end; ++position)
    attention += this->attention(keys, position, cut.visible);
}

}  // namespace deepinfer::deepseek_v41
