#include "models/deepseek_v41/row_plan.h"

#include <algorithm>

namespace deepinfer::deepseek_v41 {

LayerCut layer_cut(const Config& c, const LayerTable& table, const RowRule& rule, int layer) {
  const int first = table.first_skipping_layer;
  if (layer < first || rule.kind == RowRule::Kind::kEveryRow) return {};
  LayerCut cut;
  if (rule.kind == RowRule::Kind::kBoundedReplay) {
    cut = {rule.from, rule.from, rule.from, rule.from};
  } else {
    // A row's logits need window records of the reach - 1 positions before it in the last layer, these rows need as
    // many before them in the layer before, and so on.
    const int64_t before = c.sliding_window - 1;
    cut.query = std::max<int64_t>(0, rule.from - before * (table.layer_count - 1 - layer));
    cut.window = std::max<int64_t>(0, cut.query - before);
    cut.arrive = cut.window;
  }
  // The first skipping layer stores compressed rows for the whole sequence.
  if (layer == first) cut.arrive = 0;
  return cut;
}

bool resumable(const Config& c, const LayerTable& table, const CacheGroups& groups, const WrittenRows& written,
               int64_t position, const RowRule& rule) {
  if (position == 0) return true;
  if (position > written.processed || rule.kind == RowRule::Kind::kBoundedReplay) return false;
  // Rings hold the last slots positions that were written, rolled back or not.  The next rows read back to position -
  // (window - 1), a draft to position - window.
  const int64_t reach = c.num_nextn_predict_layers > 0 ? c.sliding_window : c.sliding_window - 1;
  if (std::max<int64_t>(0, position - reach) < written.end - groups.window_slots) return false;
  if (position % 2 != 0 && position - 1 < written.end - groups.half_group_slots && !table.kv_sources(2).empty())
    return false;
  const RowRule before{RowRule::Kind::kExact, written.exact_from};
  for (int layer = table.first_skipping_layer; layer < table.layer_count; ++layer) {
    const int64_t needed =
        std::max({int64_t{0}, position - (c.sliding_window - 1), layer_cut(c, table, rule, layer).window});
    if (needed < std::min(position, layer_cut(c, table, before, layer).window)) return false;
  }
  return true;
}

int64_t min_replay_tokens(const Config& c, const LayerTable& table) {
  const int first = table.first_skipping_layer;
  if (first >= table.layer_count) return 0;
  const auto& taps = c.dspark_target_layer_ids;
  if (!taps.empty() && (taps.front() < first) != (taps.back() < first)) return 0;
  // The draft context and every window after a rollback lie inside the tail.
  return c.sliding_window + c.dspark_block_size + 1;
}

}  // namespace deepinfer::deepseek_v41
