// The attention site of a layer: window records, queries, row choice, sparse attention, output (specs: v41-model.md
// 2.2, 2.3, 2.5-2.7).
#include "models/deepseek_v41/forward.h"

namespace deepinfer::deepseek_v41 {

RopeTable Forward::rope_table(int layer) const {
  const MatrixView<float>& frequencies = table_[layer].ratio > 0 ? a_.compress_frequencies : a_.plain_frequencies;
  return {frequencies.data, static_cast<int>(frequencies.columns)};
}

HyperConnectionCollapse Forward::attention_input(int layer) const {
  return sublayer_input(active(a_.step.pre), w_.layers[static_cast<size_t>(layer)].attention.input_norm);
}

// This is where a token's window KV record is made; commit_window moves it into the sequence's ring.
void Forward::window_records(int layer) {
  const AttentionWeights& w = w_.layers[static_cast<size_t>(layer)].attention;
  const MatrixView<bf16> kv = first_rows(a_.attention.kv);
  ops_.matmul({active(a_.step.quantized), w.wkv, kv, {}});
  ops_.make_window_records(
      {kv, w.kv_norm, c_.rms_norm_eps, active_positions(), rope_table(layer), first_rows(a_.attention.records),
       true});
  record_spans_.assign(rows_.spans().begin(), rows_.spans().end());
  for (RowSpan& span : record_spans_) span.first_row -= rows_.begin();
}

void Forward::queries(int layer) {
  const AttentionWeights& w = w_.layers[static_cast<size_t>(layer)].attention;
  const MatrixView<bf16> qr = first_rows(a_.attention.qr);
  ops_.matmul({active(a_.step.quantized), w.wq_a, qr, {}});
  ops_.rms_norm({qr, w.q_norm, c_.rms_norm_eps, qr, true});
  ops_.matmul({qr, w.wq_b, first_rows(a_.attention.q), {}});
  if (table_[layer].owns_index()) choose_rows(layer);
}

void Forward::choose_rows(int layer) {
  const LayerSpec& spec = table_[layer];
  const IndexerWeights& w = w_.layers[static_cast<size_t>(layer)].attention.indexer;
  const MatrixView<bf16> index_q = first_rows(a_.attention.index_q);
  const MatrixView<uint8_t> records = first_rows(a_.attention.index_records);
  const MatrixView<bf16> weights = first_rows(a_.attention.index_weights);
  ops_.matmul({first_rows(a_.attention.qr), w.wq_b, index_q, {}});
  ops_.make_index_queries(
      {index_q, c_.index_n_heads, c_.index_head_dim, active_positions(), rope_table(layer), records});
  ops_.matmul({active(a_.step.x), w.weights_proj, weights, {}});

  const auto keys = static_cast<size_t>(groups_.layers[static_cast<size_t>(spec.kv_source)].index_keys);
  index_list_.clear();
  for (size_t s = 0; s < step_.size(); ++s) {
    const RowSpan& span = rows_.spans()[s];
    if (span.rows == 0) continue;
    index_list_.push_back({span.first_row - rows_.begin(), span.rows, span.position, step_[s].cache.histories[keys]});
  }
  IndexTopk op;
  op.queries = records;
  op.weights = weights;
  op.heads = c_.index_n_heads;
  op.head_dim = c_.index_head_dim;
  op.ratio = spec.ratio;
  op.sequences = index_list_.data();
  op.sequence_count = static_cast<int>(index_list_.size());
  op.top_k = c_.index_topk;
  op.selected = active(a_.step.selected);
  op.candidate_block = c_.candidate_block_size;
  if (spec.makes_candidates || spec.uses_candidates) {
    op.pool = spec.makes_candidates ? IndexTopk::Pool::kMake : IndexTopk::Pool::kUse;
    op.candidates = active(a_.step.candidates);
  }
  ops_.index_topk(op);
  if (tells_choices_) tell_selected(layer, op.selected);
  if (probe != nullptr)
    probe->after_selection(layer, op.selected, spec.makes_candidates ? op.candidates : MatrixView<int32_t>());
}

void Forward::attend(int layer, SparseAttention::Window window) {
  const LayerSpec& spec = table_[layer];
  const auto ring = static_cast<size_t>(groups_.layers[static_cast<size_t>(layer)].window);
  attention_list_.clear();
  for (size_t s = 0; s < rows_.spans().size(); ++s) {
    const RowSpan& span = rows_.spans()[s];
    const RowSpan& records = record_spans_[s];
    if (span.rows == 0) continue;
    const CacheView& cache = drafting_.empty() ? step_[s].cache : drafting_[s].cache;
    AttentionSequence entry;
    entry.first_row = span.first_row - rows_.begin();
    entry.rows = span.rows;
    entry.position = span.position;
    entry.ring = cache.rings[ring];
    entry.first_record = records.first_row;
    entry.step_records = records.rows;
    entry.step_position = records.position;
    entry.first_visible = drafting_.empty() ? cut(s, layer).visible : drafting_[s].context_from;
    if (spec.kv_source >= 0) {
      const LayerCache& source = groups_.layers[static_cast<size_t>(spec.kv_source)];
      entry.compressed = cache.histories[static_cast<size_t>(source.compressed)];
    }
    attention_list_.push_back(entry);
  }
  SparseAttention op;
  op.q = first_rows(a_.attention.q);
  op.heads = c_.num_attention_heads;
  op.head_dim = c_.head_dim;
  op.window_size = c_.sliding_window;
  op.window = window;
  op.step_records = a_.attention.records;
  op.sequences = attention_list_.data();
  op.sequence_count = static_cast<int>(attention_list_.size());
  if (spec.index_source >= 0) op.selected = active(a_.step.selected);
  op.sink = w_.layers[static_cast<size_t>(layer)].attention.sink;
  op.o = first_rows(a_.attention.o);
  op.table = rope_table(layer);
  op.position = active_positions();
  ops_.sparse_attention(op);
}

void Forward::output_projection(int layer) {
  const AttentionWeights& w = w_.layers[static_cast<size_t>(layer)].attention;
  const MatrixView<bf16> o = first_rows(a_.attention.o);
  const MatrixView<bf16> a = first_rows(a_.attention.a);
  ops_.grouped_matmul({o, w.wo_a, c_.o_groups, a, true});
  ops_.matmul({a, w.wo_b, first_rows(a_.site.y), {}});
}

// The coefficients of this site, from the streams that its input was made of; its pre is for the feed-forward input.
void Forward::mix_attention(int layer) {
  ops_.hyper_connection_mix({active(a_.step.streams), w_.layers[static_cast<size_t>(layer)].attention_mix,
                             first_rows(a_.site.site_pre), first_rows(a_.site.post), first_rows(a_.site.comb)});
}

void Forward::expand_attention(int layer) {
  const FeedForwardWeights& next = w_.layers[static_cast<size_t>(layer)].feed_forward;
  ops_.hyper_connection_expand({first_rows(a_.site.y), first_rows(a_.site.post), first_rows(a_.site.comb),
                                active(a_.step.streams),
                                sublayer_input(first_rows(a_.site.site_pre), next.input_norm)});
}

// This is where a token's window KV record enters the cache: after attention, which reads older rows from the ring.
void Forward::commit_window(int layer) {
  const auto ring = static_cast<size_t>(groups_.layers[static_cast<size_t>(layer)].window);
  commit_list_.clear();
  for (size_t s = 0; s < step_.size(); ++s) {
    const RowSpan& span = record_spans_[s];
    if (span.rows == 0) continue;
    commit_list_.push_back({step_[s].cache.rings[ring], span.first_row, span.rows, span.position});
  }
  ops_.commit_window({a_.attention.records, commit_list_.data(), static_cast<int>(commit_list_.size())});
}

}  // namespace deepinfer::deepseek_v41
