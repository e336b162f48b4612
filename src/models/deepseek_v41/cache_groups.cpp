#include "models/deepseek_v41/cache_groups.h"

#include "tensor/formats.h"

namespace deepinfer::deepseek_v41 {
namespace {

// Adds a group of these layers and notes its place for each of them.
void add_group(CacheGroups& groups, CacheGroupSpec spec, const std::vector<int>& layers, int LayerCache::*place) {
  if (layers.empty()) return;
  int next = 0;
  for (const CacheGroupSpec& group : groups.layout.groups) {
    if (group.is_ring() == spec.is_ring()) next += static_cast<int>(group.layers.size());
  }
  for (const int layer : layers) groups.layers[static_cast<size_t>(layer)].*place = next++;
  spec.layers = layers;
  groups.layout.groups.push_back(std::move(spec));
}

std::vector<int> range(int first, int end) {
  std::vector<int> ids;
  for (int i = first; i < end; ++i) ids.push_back(i);
  return ids;
}

CacheGroupSpec ring(std::string name, CacheRetention retention, int64_t record_bytes, int64_t window, int64_t slots) {
  CacheGroupSpec spec;
  spec.name = std::move(name);
  spec.retention = retention;
  spec.record_bytes = record_bytes;
  spec.window = window;
  spec.slots = slots;
  return spec;
}

CacheGroupSpec history(std::string name, int64_t record_bytes, int ratio) {
  CacheGroupSpec spec;
  spec.name = std::move(name);
  spec.retention = CacheRetention::kFullHistory;
  spec.record_bytes = record_bytes;
  spec.tokens_per_record = ratio;
  return spec;
}

}  // namespace

CacheGroups make_cache_groups(const Config& c, const LayerTable& table, int64_t ring_slack) {
  CacheGroups groups;
  groups.layers.resize(static_cast<size_t>(c.total_layers()));
  groups.layout.lookback_tokens = c.engram_layer_ids.empty() ? 0 : c.engram_max_ngram_size - 1;
  // A verify step stores the last token and dspark_block_size drafts before any of them is committed.
  groups.window_slots = c.sliding_window + c.dspark_block_size + 1 + ring_slack;
  groups.half_group_slots = 2 + c.dspark_block_size;

  const int64_t window = c.sliding_window;
  const int64_t record = fp8_record_bytes(c.head_dim);
  const int decoder = table.first_decoder_layer;
  const auto window_group = [&](std::string name, int first, int end, int64_t reach) {
    add_group(groups, ring(std::move(name), CacheRetention::kSlidingWindow, record, reach, groups.window_slots),
              range(first, end), &LayerCache::window);
    // Layers that skip rows of a prompt keep the last windows only (row_plan.h).
    if (end > first) groups.layout.groups.back().early = end <= table.first_skipping_layer;
  };
  window_group("encoder window", 0, decoder, window);
  window_group("decoder window", decoder, table.layer_count, window);
  // A draft row reads a whole window before its block.
  window_group("draft window", table.layer_count, c.total_layers(), window + 1);
  add_group(groups,
            ring("half groups", CacheRetention::kRunningState, 2 * c.head_dim * int64_t{sizeof(float)}, 0,
                 groups.half_group_slots),
            table.kv_sources(2), &LayerCache::half_groups);

  for (const int ratio : {2, 1}) {
    const std::string suffix = ratio == 2 ? ", 2 tokens a row" : ", 1 token a row";
    add_group(groups, history("compressed KV" + suffix, main_kv_record_bytes(c.head_dim), ratio),
              table.kv_sources(ratio), &LayerCache::compressed);
    add_group(groups, history("index keys" + suffix, index_record_bytes(c.index_head_dim), ratio),
              table.kv_sources(ratio), &LayerCache::index_keys);
  }
  return groups;
}

}  // namespace deepinfer::deepseek_v41
