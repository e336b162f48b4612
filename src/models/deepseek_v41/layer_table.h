// The layer table: what each layer is, which layers it takes compressed rows and row lists from, and from where prefill
// may skip rows.  Derived from a Config alone; every other file asks here instead of comparing layer ids.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/deepseek_v41/config.h"

namespace deepinfer::deepseek_v41 {

enum class LayerKind : uint8_t {
  kWindow,   // sliding window only (ratio 0; draft stages too)
  kFull,     // owns compressed rows, index keys and the row list
  kReindex,  // rows of an earlier layer, chosen anew
  kReuse,    // rows and row list of earlier layers
};
std::string_view to_string(LayerKind kind);

struct LayerSpec {
  LayerKind kind = LayerKind::kWindow;
  int ratio = 0;          // tokens per compressed row; 0: none
  int kv_source = -1;     // layer whose compressed rows and index keys are read; -1: none
  int index_source = -1;  // layer whose row list is used; -1: none
  int engram = -1;        // index into engram_layer_ids of the Engram at this layer's input; -1: none
  int tap = -1;           // index into dspark_target_layer_ids of the tap at this layer's input; -1: none
  bool makes_candidates = false;
  bool uses_candidates = false;

  bool owns_kv() const { return kind == LayerKind::kFull; }
  bool owns_index() const { return kind == LayerKind::kFull || kind == LayerKind::kReindex; }
};

struct LayerTable {
  std::vector<LayerSpec> layers;  // total_layers(): backbone, then draft stages
  int layer_count = 0;            // of the backbone
  int first_decoder_layer = 0;    // the first layer of ratio 1; layer_count if there is none
  // Rows may leave a prefill step from this layer on: first_decoder_layer where no later layer stores anything for the
  // whole sequence, otherwise layer_count (nothing is skipped).
  int first_skipping_layer = 0;

  const LayerSpec& operator[](int layer) const { return layers[static_cast<size_t>(layer)]; }
  // Layers with owns_kv() and this ratio, ascending.
  std::vector<int> kv_sources(int ratio) const;
  // How many layers below `layer` choose rows (owns_index()): the number of `layer` among them.
  int indexers_before(int layer) const;
};

// Errors: source lists that contradict the ratios (the message names key, layer and rule).
Result<LayerTable> make_layer_table(const Config& config);

}  // namespace deepinfer::deepseek_v41
