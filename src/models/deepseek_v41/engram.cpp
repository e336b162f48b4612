// Engram at a layer's input: hash, gather, project, mix (specs: v41-model.md 2.8).
#include <algorithm>

#include "base/check.h"
#include "models/deepseek_v41/forward.h"

namespace deepinfer::deepseek_v41 {

void Forward::mix_engram(int layer) {
  const int number = table_[layer].engram;
  const EngramWeights& w = w_.engrams[static_cast<size_t>(number)];
  const MatrixView<int32_t>& classes = a_.host.engram_class;
  for (size_t s = 0; s < step_.size(); ++s) {
    const StepSequence& sequence = step_[s];
    const RowSpan& span = rows_.spans()[s];
    DI_CHECK(span.rows == sequence.rows, "no row leaves before the last Engram");
    const int64_t before = std::min<int64_t>(sequence.position, hash_.lookback());
    const auto tokens = sequence.tokens;
    DI_CHECK(static_cast<int64_t>(tokens.size()) >= before + span.rows,
             "a step brings the look-back tokens of its rows");
    const auto ids = tokens.last(static_cast<size_t>(before + span.rows));
    for (size_t i = 0; i < ids.size(); ++i) classes.data[i] = hash_.class_of(ids[i]);
    hash_.rows(number, {classes.data, ids.size()}, span.rows, a_.host.engram_row.row(span.first_row));
  }
  const MatrixView<bf16> e = first_rows(a_.engram.e);
  const MatrixView<bf16> kv = first_rows(a_.engram.kv);
  ops_.engram_gather({w.table, a_.host.engram_row.data, hash_.lookups(), e});
  // The table's own FP8 values enter the product: they are not rounded again.
  ops_.matmul({e, w.wkv, kv, {}});
  ops_.engram_mix({kv, w.query_weight, w.key_weight, c_.rms_norm_eps, nullptr, active(a_.step.streams)});
}

}  // namespace deepinfer::deepseek_v41
