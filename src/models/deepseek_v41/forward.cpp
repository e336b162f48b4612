#include "models/deepseek_v41/forward.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace deepinfer::deepseek_v41 {

Forward::Forward(const ForwardParts& parts, const StepLimits& limits, Activations activations)
    : c_(parts.config),
      table_(parts.table),
      groups_(parts.groups),
      hash_(parts.hash),
      w_(parts.weights),
      ops_(parts.ops),
      memory_(parts.ops.memory()),
      limits_(limits),
      a_(std::move(activations)) {
  const auto place = [&](const MatrixView<float>& to, double theta, const RopeScaling& scaling) {
    std::vector<float> values = rope_frequencies(c_.qk_rope_head_dim, theta, scaling);
    write(to, MatrixView<float>(values.data(), 1, static_cast<int64_t>(values.size())));
  };
  place(a_.plain_frequencies, c_.rope_theta, {});
  place(a_.compress_frequencies, c_.compress_rope_theta, c_.rope_scaling);
  const auto sequences = static_cast<size_t>(limits.sequences);
  rows_.reserve(limits.sequences, std::max(limits.rows, limits.sequences * c_.dspark_block_size));
  record_spans_.reserve(sequences);
  attention_list_.reserve(sequences);
  index_list_.reserve(sequences);
  compress_list_.reserve(sequences);
  store_list_.reserve(sequences);
  key_list_.reserve(sequences);
  commit_list_.reserve(sequences);
  sampling_.resize(sequences);
  sampled_.resize(sequences);
}

MatrixView<float> Forward::run(std::span<const StepSequence> step) {
  step_ = step;
  drafting_ = {};
  tells_choices_ = std::any_of(step.begin(), step.end(), [](const StepSequence& s) { return s.choices != nullptr; });
  rows_.clear();
  for (const StepSequence& s : step) {
    DI_CHECK(s.rows >= 1 && static_cast<int64_t>(s.tokens.size()) >= s.rows, "a step has the tokens of its rows");
    rows_.append(s.rows, s.position);
  }
  DI_CHECK(rows_.count() <= limits_.rows && static_cast<int64_t>(step.size()) <= limits_.sequences,
           "a step stays within the limits that scratch memory was planned for");
  for (size_t s = 0; s < step_.size(); ++s) {
    const RowSpan& span = rows_.spans()[s];
    const auto ids = step_[s].tokens.last(static_cast<size_t>(span.rows));
    for (int64_t i = 0; i < span.rows; ++i) {
      *a_.host.id.row(span.first_row + i) = ids[static_cast<size_t>(i)];
      *a_.host.position.row(span.first_row + i) = span.position + i;
    }
  }
  embed();
  for (int layer = 0; layer < table_.layer_count && rows_.count() > 0; ++layer) run_layer(layer);
  return head();
}

void Forward::embed() {
  write(active(a_.step.id), active(a_.host.id));
  write(active(a_.step.position), active(a_.host.position));
  ops_.embed_tokens({w_.embed, a_.step.id.data, c_.hc_mult, active(a_.step.streams), active(a_.step.pre)});
}

void Forward::keep_rows(FunctionRef<int64_t(size_t sequence)> from) {
  const int64_t before = rows_.count();
  const auto moves = rows_.keep(from);
  if (moves.empty()) return;
  const int64_t begin = rows_.begin();
  const auto compact = [&]<typename T>(const MatrixView<T>& m) {
    if (m.columns == 0) return;
    const int64_t bytes = m.columns * static_cast<int64_t>(sizeof(T));
    auto* data = reinterpret_cast<std::byte*>(m.row(begin));
    ops_.gather_rows({{data, before, bytes}, moves.data(), {data, static_cast<int64_t>(moves.size()), bytes}});
  };
  compact(a_.step.id);
  compact(a_.step.position);
  compact(a_.step.streams);
  compact(a_.step.pre);
  compact(a_.step.x);
  compact(a_.step.quantized);
  compact(a_.step.taps);
  compact(a_.step.selected);
  compact(a_.step.candidates);
}

HyperConnectionCollapse Forward::sublayer_input(const MatrixView<float>& pre, const bf16* norm) const {
  return {active(a_.step.streams), pre, norm, c_.rms_norm_eps, active(a_.step.x), active(a_.step.quantized)};
}

// Engram and a probe change the streams that a layer begins with.  The first layer and the first draft stage begin with
// the embedding.
bool Forward::input_comes_with_streams(int layer) const {
  const bool follows_a_layer = layer != 0 && layer != table_.layer_count && layer < c_.total_layers();
  return follows_a_layer && table_[layer].engram < 0 && probe == nullptr;
}

// Rows leave inside a layer: all that arrive feed the compressor, those from the window cut on leave a window record,
// those from the query cut on attend and go on (row_plan.h).
void Forward::run_layer(int layer) {
  const LayerSpec& spec = table_[layer];
  if (spec.engram >= 0) mix_engram(layer);
  if (probe != nullptr) probe->before_layer(layer, active(a_.step.streams), active(a_.step.pre));
  if (spec.tap >= 0) {
    ops_.hyper_connection_mean(
        {active(a_.step.streams), active(a_.step.taps).columns_from(spec.tap * c_.hidden_size, c_.hidden_size)});
  }
  // The rows that reach the last layer are those that its windows keep, and a draft's context is as long.
  if (layer == table_.layer_count - 1 && c_.num_nextn_predict_layers > 0) store_draft_context();

  if (!input_comes_with_streams(layer)) ops_.hyper_connection_collapse(attention_input(layer));
  if (spec.owns_kv()) store_compressed(layer);
  keep_rows([&](size_t s) { return cut(s, layer).window; });
  if (rows_.count() == 0) return;
  window_records(layer);
  keep_rows([&](size_t s) { return cut(s, layer).query; });
  if (rows_.count() > 0) {
    queries(layer);
    mix_attention(layer);
    attend(layer, SparseAttention::Window::kCausal);
    output_projection(layer);
    expand_attention(layer);
  }
  commit_window(layer);
  if (rows_.count() > 0) feed_forward(layer);
}

MatrixView<float> Forward::head() {
  if (rows_.count() > 0) {
    if (probe != nullptr) probe->before_layer(table_.layer_count, active(a_.step.streams), active(a_.step.pre));
    keep_rows([&](size_t s) { return step_[s].logits_from; });
  }
  const int64_t wanted = rows_.count();
  DI_CHECK(wanted <= limits_.logit_rows, "a step wants no more logits than planned for");
  const MatrixView<float> logits = a_.logits.rows_from(0, wanted);
  if (wanted == 0) return logits;
  ops_.hyper_connection_collapse(
      {active(a_.step.streams), active(a_.step.pre), w_.norm, c_.rms_norm_eps, active(a_.step.x), {}});
  ops_.matmul({active(a_.step.x), w_.head, {}, logits});
  return logits;
}

OpsLimits ops_limits(const Config& c, const StepLimits& limits) {
  const int64_t wide = int64_t{c.num_attention_heads} * c.head_dim;
  const int64_t taps = static_cast<int64_t>(c.dspark_target_layer_ids.size());
  OpsLimits o;
  o.rows = std::max(limits.rows, limits.sequences * c.dspark_block_size);
  o.max_k =
      std::max({c.hidden_size, c.q_lora_rank, wide, c.o_groups * c.o_lora_rank, c.moe_intermediate_size,
                taps * c.hidden_size, c.engram_lookups() * c.engram_head_dim, c.hidden_size + c.dspark_markov_rank});
  o.max_n = std::max({wide, c.hidden_size, c.vocab_size, c.o_groups * c.o_lora_rank, c.moe_intermediate_size,
                      int64_t{c.index_n_heads} * c.index_head_dim, (c.hc_mult + 1) * c.hidden_size});
  o.heads = c.num_attention_heads;
  o.head_dim = c.head_dim;
  o.window_size = c.sliding_window;
  o.top_k = c.index_topk;
  o.index_heads = c.index_n_heads;
  o.candidate_blocks = c.candidate_topk_blocks;
  o.max_position = limits.max_context;
  o.experts = std::max(c.n_routed_experts, c.dspark_n_routed_experts);
  o.experts_per_token = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  o.expert_width = c.moe_intermediate_size;
  o.hidden = c.hidden_size;
  o.vocabulary = c.vocab_size;
  return o;
}

}  // namespace deepinfer::deepseek_v41
