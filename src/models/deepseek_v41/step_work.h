// StepWorkCount: the arithmetic of a step, from the model's shapes.  For statistics; never for scheduling.
//
// Counted: matrix products, attention over the keys that are attended to, scores of the row choice, and the mixing of
// hyper-connections.  Not counted: what is linear in a row's width (norms, rotations, rounding, sampling), and drafts.
#pragma once

#include <span>
#include <vector>

#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/weights.h"
#include "models/model.h"

namespace deepinfer::deepseek_v41 {

class StepWorkCount {
 public:
  // All three outlive it.
  StepWorkCount(const Config& config, const LayerTable& table, const Weights& weights);

  // O(rows) where no row leaves early, O(rows * layers) for a prompt whose rows do.
  StepWork count(std::span<const StepSequence> step) const;

 private:
  // Multiply-adds of a layer for one row, by how far the row gets (row_plan.h).
  struct LayerProducts {
    double every = 0;   // Engram at its input
    double arrive = 0;  // compressor
    double group = 0;   // index key, of a compressed row
    double window = 0;  // window record
    double query = 0;   // attention's other products, experts, mixing
  };
  // Layers whose queries look at the same keys.
  struct KeyClass {
    int ratio = 0;
    bool selects = false;          // attends to chosen compressed rows
    bool scores = false;           // chooses them
    bool from_candidates = false;  // among the candidate pool only
    int layers = 0;

    bool operator==(const KeyClass&) const = default;
  };

  LayerProducts products_of(int layer) const;
  KeyClass key_class(int layer) const;
  // Multiply-adds of attention and row choice for the query at `position` that sees window records from `visible` on.
  double attention(const KeyClass& keys, int64_t position, int64_t visible) const;
  void add_whole(const StepSequence& sequence, double& attention, double& products) const;
  void add_layer(const StepSequence& sequence, int layer, double& attention, double& products) const;

  const Config& config_;
  const LayerTable& table_;
  const Weights& weights_;
  std::vector<LayerProducts> layers_;
  LayerProducts whole_;  // of all layers together, but for groups
  std::vector<KeyClass> key_classes_;
};

}  // namespace deepinfer::deepseek_v41
