// The host plan of a step: which positions run through which layers (specs: v41-model.md 3.3, 3.4).  Pure functions of
// the layer table and a RowRule; the forward pass asks for each layer, tests check it without a device.
#pragma once

#include <cstdint>

#include "models/deepseek_v41/cache_groups.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/model.h"

namespace deepinfer::deepseek_v41 {

// Lower bounds of positions, each >= 0; arrive <= window <= query.
struct LayerCut {
  int64_t arrive =
      0;  // rows that reach the layer: its input is mixed and normed, compressed rows and index keys stored
  int64_t window = 0;   // rows whose window record the layer stores
  int64_t query = 0;    // rows that attend and go on through the experts to the next layer
  int64_t visible = 0;  // window records of earlier positions do not exist for this layer (bounded replay)
};

LayerCut layer_cut(const Config& config, const LayerTable& table, const RowRule& rule, int layer);

// See Model::resumable.
bool resumable(const Config& config, const LayerTable& table, const CacheGroups& groups, const WrittenRows& written,
               int64_t position, const RowRule& rule);

// Least replay_tokens of RowRule::Kind::kBoundedReplay, 0 where the model does not allow it: it needs layers after the
// last KV source and no Engram, and all taps on one side of the cut.
int64_t min_replay_tokens(const Config& config, const LayerTable& table);

}  // namespace deepinfer::deepseek_v41
