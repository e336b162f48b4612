// Compressed KV rows and index keys of a KV source, from every row that arrives at it (specs: v41-model.md 2.4).
#include "models/deepseek_v41/forward.h"

namespace deepinfer::deepseek_v41 {

void Forward::store_compressed(int layer) {
  const LayerSpec& spec = table_[layer];
  const LayerCache& place = groups_.layers[static_cast<size_t>(layer)];
  store_list_.clear();
  key_list_.clear();
  int64_t groups = 0;
  for (size_t s = 0; s < step_.size(); ++s) {
    const RowSpan& span = rows_.spans()[s];
    const int64_t first = span.position / spec.ratio;
    const int64_t complete = span.end() / spec.ratio - first;  // rows whose last token is in the step
    if (complete == 0) continue;
    const auto& histories = step_[s].cache.histories;
    store_list_.push_back({groups, complete, first, histories[static_cast<size_t>(place.compressed)]});
    key_list_.push_back({groups, complete, first, histories[static_cast<size_t>(place.index_keys)]});
    groups += complete;
  }
  const CompressorWeights& w = w_.layers[static_cast<size_t>(layer)].attention.compressor;
  if (spec.ratio == 2) {
    compress_pairs(layer, groups);
  } else {
    const MatrixView<bf16> latent = a_.attention.latent.rows_from(0, groups);
    ops_.matmul({active(a_.step.x), w.wkv, latent, {}});
    ops_.rms_norm({latent, w.norm, c_.rms_norm_eps, latent, false});
  }
  if (groups > 0) store_latents(layer, groups);
}

void Forward::compress_pairs(int layer, int64_t groups) {
  const CompressorWeights& w = w_.layers[static_cast<size_t>(layer)].attention.compressor;
  const LayerCache& place = groups_.layers[static_cast<size_t>(layer)];
  const MatrixView<float> value = first_rows(a_.attention.value);
  const MatrixView<float> gate = first_rows(a_.attention.gate);
  ops_.matmul({active(a_.step.x), w.wkv, {}, value});
  ops_.matmul({active(a_.step.x), w.wgate, {}, gate});
  compress_list_.clear();
  int64_t first_group = 0;
  for (size_t s = 0; s < step_.size(); ++s) {
    const RowSpan& span = rows_.spans()[s];
    if (span.rows == 0) continue;
    compress_list_.push_back({span.first_row - rows_.begin(), span.rows, span.position, first_group,
                              step_[s].cache.rings[static_cast<size_t>(place.half_groups)]});
    first_group += span.end() / 2 - span.position / 2;
  }
  ops_.compress_pairs({value, gate, compress_list_.data(), static_cast<int>(compress_list_.size()), w.norm,
                       c_.rms_norm_eps, a_.attention.latent.rows_from(0, groups)});
}

void Forward::store_latents(int layer, int64_t groups) {
  const int ratio = table_[layer].ratio;
  const IndexerWeights& w = w_.layers[static_cast<size_t>(layer)].attention.indexer;
  const MatrixView<bf16> latent = a_.attention.latent.rows_from(0, groups);
  const MatrixView<bf16> key = a_.attention.index_key.rows_from(0, groups);
  // The index key comes from the latent before its rotation.
  ops_.matmul({latent, w.wk, key, {}});
  const int count = static_cast<int>(store_list_.size());
  ops_.store_index_keys({key, w.key_norm, c_.rms_norm_eps, ratio, rope_table(layer), key_list_.data(), count});
  ops_.store_compressed({latent, ratio, rope_table(layer), store_list_.data(), count});
}

}  // namespace deepinfer::deepseek_v41
