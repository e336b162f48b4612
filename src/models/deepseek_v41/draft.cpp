// DSpark: the draft context of processed rows, the draft block and its Markov chain (specs: v41-model.md section 4).
#include <algorithm>

#include "base/check.h"
#include "models/deepseek_v41/forward.h"

namespace deepinfer::deepseek_v41 {

// The same features give every stage its context row.  Rows that a verify step rolls back are dead by position, like
// window records.
void Forward::store_draft_context() {
  commit_list_.clear();
  for (size_t s = 0; s < step_.size(); ++s) {
    const RowSpan& span = rows_.spans()[s];
    if (span.rows == 0 || !step_[s].draft_context) continue;
    commit_list_.push_back({{}, span.first_row - rows_.begin(), span.rows, span.position});
  }
  const MatrixView<bf16> taps = active(a_.step.taps);
  if (probe != nullptr) probe->taps(taps);
  if (commit_list_.empty()) return;
  const MatrixView<bf16> main = first_rows(a_.draft.main);
  const MatrixView<bf16> kv = first_rows(a_.attention.kv);
  ops_.quantize_activation({taps, taps});
  ops_.matmul({taps, w_.draft.main_proj, main, {}});
  ops_.rms_norm({main, w_.draft.main_norm, c_.rms_norm_eps, main, true});
  for (int layer = table_.layer_count; layer < c_.total_layers(); ++layer) {
    const AttentionWeights& w = w_.layers[static_cast<size_t>(layer)].attention;
    ops_.matmul({main, w.wkv, kv, {}});
    ops_.make_window_records(
        {kv, w.kv_norm, c_.rms_norm_eps, active_positions(), rope_table(layer), first_rows(a_.attention.records),
         false});
    const auto ring = static_cast<size_t>(groups_.layers[static_cast<size_t>(layer)].window);
    size_t next = 0;
    for (size_t s = 0; s < step_.size(); ++s) {
      if (rows_.spans()[s].rows == 0 || !step_[s].draft_context) continue;
      commit_list_[next++].ring = step_[s].cache.rings[ring];
    }
    ops_.commit_window({a_.attention.records, commit_list_.data(), static_cast<int>(commit_list_.size())});
  }
}

DraftResult Forward::draft(std::span<const DraftSequence> sequences) {
  DI_CHECK(c_.num_nextn_predict_layers > 0, "the model has a draft");
  DI_CHECK(static_cast<int64_t>(sequences.size()) <= limits_.sequences, "a step stays within its limits");
  drafting_ = sequences;
  step_ = {};
  tells_choices_ = false;
  const auto count = static_cast<int64_t>(sequences.size());
  if (count > 0) {
    draft_block(sequences);
    markov_chain(sequences);
  }
  const int64_t block = c_.dspark_block_size;
  return {a_.host.draft_token.rows_from(0, count),
          {a_.host.draft_confidence.data, count, block},
          a_.draft.logits.rows_from(0, count * block)};
}

void Forward::draft_block(std::span<const DraftSequence> sequences) {
  const int64_t block = c_.dspark_block_size;
  rows_.clear();
  for (const DraftSequence& s : sequences) {
    for (int64_t i = 0; i < block; ++i) {
      *a_.host.id.row(rows_.count() + i) = i == 0 ? s.token : c_.dspark_noise_token_id;
      *a_.host.position.row(rows_.count() + i) = s.position + i;
    }
    rows_.append(block, s.position);
  }
  embed();
  for (int layer = table_.layer_count; layer < c_.total_layers(); ++layer) {
    if (!input_comes_with_streams(layer)) ops_.hyper_connection_collapse(attention_input(layer));
    window_records(layer);
    queries(layer);
    mix_attention(layer);
    attend(layer, SparseAttention::Window::kDraftBlock);
    output_projection(layer);
    expand_attention(layer);
    feed_forward(layer);
  }
  // The confidence head reads the collapsed stream before the norm.
  const MatrixView<bf16> x = a_.draft.features.rows_from(0, rows_.count()).columns_from(0, c_.hidden_size);
  const MatrixView<bf16> normed = first_rows(a_.draft.normed);
  ops_.hyper_connection_collapse({active(a_.step.streams), active(a_.step.pre), nullptr, c_.rms_norm_eps, x, {}});
  ops_.rms_norm({x, w_.draft.norm, c_.rms_norm_eps, normed, false});
  ops_.matmul({normed, w_.head, {}, first_rows(a_.draft.logits)});
}

void Forward::markov_chain(std::span<const DraftSequence> sequences) {
  const int64_t block = c_.dspark_block_size;
  const auto count = static_cast<int64_t>(sequences.size());
  // Row s of draft i is block row s * block + i of the draft's matrices.
  const auto rows_of = [&]<typename T>(const MatrixView<T>& m, int64_t i) {
    return MatrixView<T>(m.row(i), count, m.columns, m.stride * block);
  };
  int wanted_drafts = 0;
  for (int64_t s = 0; s < count; ++s) {
    const DraftSequence& sequence = sequences[static_cast<size_t>(s)];
    *a_.host.draft_previous.row(s) = sequence.token;
    std::fill_n(a_.host.draft_token.row(s), block, -1);
    wanted_drafts = std::max(wanted_drafts, sequence.drafts);
  }
  // The block is whole, as it was trained; the chain is as long as somebody wants it.
  for (int64_t i = 0; i < wanted_drafts; ++i) {
    const MatrixView<bf16> e = rows_of(a_.draft.features, i).columns_from(c_.hidden_size, c_.dspark_markov_rank);
    const MatrixView<float> logits = rows_of(a_.draft.logits, i);
    const MatrixView<float> bias = a_.draft.bias.rows_from(0, count);
    write(a_.draft.previous, a_.host.draft_previous.rows_from(0, count));
    ops_.embed_tokens({w_.draft.markov_embed, a_.draft.previous.data, 1, e, {}});
    ops_.matmul({e, w_.draft.markov_head, {}, bias});
    ops_.add_rows({bias, logits});
    for (size_t s = 0; s < sequences.size(); ++s) {
      sampling_[s] = sequences[s].sampling;
      sampling_[s].position = sequences[s].position + 1 + i;
    }
    ops_.sample({logits, {sampling_.data(), sequences.size()}, {sampled_.data(), sequences.size()}, {}});
    for (size_t s = 0; s < sequences.size(); ++s) {
      const auto row = static_cast<int64_t>(s);
      const bool wanted = i < sequences[s].drafts && (i == 0 || a_.host.draft_token.row(row)[i - 1] >= 0);
      const int32_t token = wanted ? sampled_[s].token : -1;
      a_.host.draft_token.row(row)[i] = token;
      *a_.host.draft_previous.row(row) = std::max(token, 0);  // an unwanted row goes on from any token
    }
  }
  const int64_t block_rows = count * block;
  ops_.matmul({a_.draft.features.rows_from(0, block_rows),
               w_.draft.confidence,
               {},
               a_.draft.confidence.rows_from(0, block_rows)});
  read(a_.host.draft_confidence.rows_from(0, block_rows), a_.draft.confidence);
}

}  // namespace deepinfer::deepseek_v41
