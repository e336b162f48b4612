// What DeepSeek-V4.1 keeps of a sequence (specs: v41-model.md 3.1) and where each layer finds its part of a CacheView.
#pragma once

#include <vector>

#include "models/cache_layout.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"

namespace deepinfer::deepseek_v41 {

// Places in CacheView::rings and CacheView::histories; -1: the layer owns no such records.
struct LayerCache {
  int window = -1;       // ring: window KV records; of draft stages the draft context
  int half_groups = -1;  // ring: gate logits and values of single tokens, KV sources of ratio 2
  int compressed = -1;   // history: compressed KV records, KV sources
  int index_keys = -1;   // history: index keys, KV sources
};

struct CacheGroups {
  CacheLayout layout;
  std::vector<LayerCache> layers;  // total_layers()
  // Slots of each kind of ring: a window (or two tokens) and the rows that one verify step may write past the last
  // committed one; of windows also StepLimits::ring_slack.
  int64_t window_slots = 0;
  int64_t half_group_slots = 0;
};

CacheGroups make_cache_groups(const Config& config, const LayerTable& table, int64_t ring_slack = 0);

}  // namespace deepinfer::deepseek_v41
