#include "models/deepseek_v41/layer_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace deepinfer::deepseek_v41 {
namespace {

// The largest entry <= layer of an ascending list, or -1.
int last_at_or_before(const std::vector<int>& ids, int layer) {
  const auto after = std::upper_bound(ids.begin(), ids.end(), layer);
  return after == ids.begin() ? -1 : *(after - 1);
}

int index_of(const std::vector<int>& ids, int layer) {
  const auto found = std::find(ids.begin(), ids.end(), layer);
  return found == ids.end() ? -1 : static_cast<int>(found - ids.begin());
}

Status check_sources(const Config& c, std::string_view key, const std::vector<int>& ids) {
  for (const int id : ids) {
    if (c.compress_ratios[static_cast<size_t>(id)] == 0)
      return corrupt_file(fmt::format("{} holds layer {}, whose compress_ratios entry is 0; allowed: 1 or 2", key, id));
  }
  return {};
}

}  // namespace

std::string_view to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::kWindow:
      return "window";
    case LayerKind::kFull:
      return "full";
    case LayerKind::kReindex:
      return "reindex";
    case LayerKind::kReuse:
      return "reuse";
  }
  return "?";
}

std::vector<int> LayerTable::kv_sources(int ratio) const {
  std::vector<int> ids;
  for (int layer = 0; layer < layer_count; ++layer) {
    if ((*this)[layer].owns_kv() && (*this)[layer].ratio == ratio) ids.push_back(layer);
  }
  return ids;
}

int LayerTable::indexers_before(int layer) const {
  return static_cast<int>(
      std::count_if(layers.begin(), layers.begin() + layer, [](const LayerSpec& spec) { return spec.owns_index(); }));
}

Result<LayerTable> make_layer_table(const Config& c) {
  DI_RETURN_IF_ERROR(check_sources(c, "kv_source_layer_ids", c.kv_source_layer_ids));
  DI_RETURN_IF_ERROR(check_sources(c, "index_source_layer_ids", c.index_source_layer_ids));
  for (const int id : c.kv_source_layer_ids) {
    // A row list is made from the keys of one KV source, so a new source needs a new list.
    if (index_of(c.index_source_layer_ids, id) < 0)
      return corrupt_file(
          fmt::format("index_source_layer_ids lacks layer {} of kv_source_layer_ids; allowed: lists in "
                      "which every KV source chooses its own rows",
                      id));
  }

  LayerTable table;
  table.layer_count = c.num_hidden_layers;
  table.first_decoder_layer = c.num_hidden_layers;
  table.layers.resize(static_cast<size_t>(c.total_layers()));
  for (int l = 0; l < c.total_layers(); ++l) {
    LayerSpec& spec = table.layers[static_cast<size_t>(l)];
    spec.ratio = c.compress_ratios[static_cast<size_t>(l)];
    if (l >= c.num_hidden_layers) {
      if (spec.ratio != 0)
        return corrupt_file(fmt::format("compress_ratios[{}] is {} for a draft stage; allowed: 0", l, spec.ratio));
      continue;
    }
    spec.engram = index_of(c.engram_layer_ids, l);
    spec.tap = index_of(c.dspark_target_layer_ids, l);
    if (spec.ratio == 0) continue;
    spec.kv_source = last_at_or_before(c.kv_source_layer_ids, l);
    spec.index_source = last_at_or_before(c.index_source_layer_ids, l);
    if (spec.kv_source < 0)
      return corrupt_file(
          fmt::format("layer {} has ratio {} but kv_source_layer_ids has no layer <= {}", l, spec.ratio, l));
    const int source_ratio = c.compress_ratios[static_cast<size_t>(spec.kv_source)];
    if (source_ratio != spec.ratio)
      return corrupt_file(fmt::format("layer {} has ratio {} but its KV source, layer {}, has ratio {}; allowed: equal",
                                      l, spec.ratio, spec.kv_source, source_ratio));
    spec.kind = spec.kv_source == l      ? LayerKind::kFull
                : spec.index_source == l ? LayerKind::kReindex
                                         : LayerKind::kReuse;
    if (spec.ratio == 1 && l < table.first_decoder_layer) {
      table.first_decoder_layer = l;
      if (!spec.owns_kv())
        return corrupt_file(fmt::format(
            "layer {} is the first of ratio 1 but not in kv_source_layer_ids; allowed: a KV source there", l));
    }
  }

  if (c.candidate_source_layer_id) {
    const int source = *c.candidate_source_layer_id;
    if (index_of(c.index_source_layer_ids, source) < 0)
      return corrupt_file(
          fmt::format("candidate_source_layer_id is {}; allowed: null or a layer of index_source_layer_ids", source));
    table.layers[static_cast<size_t>(source)].makes_candidates = true;
    for (const int id : c.index_source_layer_ids) {
      if (id <= source) continue;
      LayerSpec& user = table.layers[static_cast<size_t>(id)];
      if (user.kv_source != table[source].kv_source)
        return corrupt_file(
            fmt::format("layer {} would choose from the candidates of layer {} but reads other compressed rows (layer "
                        "{} against {})",
                        id, source, user.kv_source, table[source].kv_source));
      user.uses_candidates = true;
    }
  }

  const int first = table.first_decoder_layer;
  const auto stores_history = [&](int l) { return (l > first && table[l].owns_kv()) || table[l].engram >= 0; };
  table.first_skipping_layer = first;
  for (int l = first; l < c.num_hidden_layers; ++l) {
    if (stores_history(l)) table.first_skipping_layer = c.num_hidden_layers;
  }
  return table;
}

}  // namespace deepinfer::deepseek_v41
