// What the rows under way chose, told to the sequences that ask for it (models/choice_sink.h).
#include "models/deepseek_v41/forward.h"

namespace deepinfer::deepseek_v41 {

template <typename Tell>
void Forward::tell_choices(const MatrixView<int32_t>& chosen, Tell tell) {
  // Columns of a wider matrix come with all between them.
  MatrixView<int32_t> told(a_.host.chosen.data, chosen.rows, chosen.columns, chosen.stride);
  const int64_t count = (chosen.rows - 1) * chosen.stride + chosen.columns;
  memory_.read(told.data, chosen.data, static_cast<size_t>(count) * sizeof(int32_t));
  for (size_t s = 0; s < step_.size(); ++s) {
    ChoiceSink* const sink = step_[s].choices;
    if (sink == nullptr) continue;
    const RowSpan& span = rows_.spans()[s];
    for (int64_t i = 0; i < span.rows; ++i) {
      const int32_t* row = told.row(span.first_row - rows_.begin() + i);
      tell(*sink, span.position + i, std::span<const int32_t>(row, static_cast<size_t>(told.columns)));
    }
  }
}

void Forward::tell_routed(int layer, const MatrixView<int32_t>& expert) {
  tell_choices(expert, [&](ChoiceSink& sink, int64_t position, std::span<const int32_t> experts) {
    sink.routed(position, layer, experts);
  });
}

void Forward::tell_selected(int layer, const MatrixView<int32_t>& selected) {
  const int64_t indexer = table_.indexers_before(layer);
  tell_choices(selected, [&](ChoiceSink& sink, int64_t position, std::span<const int32_t> rows) {
    sink.selected(position, indexer, rows);
  });
}

}  // namespace deepinfer::deepseek_v41
