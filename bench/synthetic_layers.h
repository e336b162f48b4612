// SyntheticLayers: layers of a released config's dimensions with generated weights, ready to run steps of one sequence.
// For model_bench: a machine that cannot hold the model can still be measured on some of its layers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/deepseek_v41/cache_groups.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/engram_hash.h"
#include "models/deepseek_v41/forward.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/weights.h"
#include "models/sequence_cache.h"
#include "ops/ops.h"
#include "tensor/buffer.h"

namespace deepinfer::bench {

// `layers` layers of the config's dimensions: the first half encoder layers (ratio 2), the rest decoder layers (ratio
// 1), each half led by a layer that owns KV, a new row list every four decoder layers.  Without Engram, draft and
// picture encoder; the vocabulary is cut to what the step's token ids need.
deepseek_v41::Config layer_slice(const deepseek_v41::Config& released, int layers, int experts);

class SyntheticLayers {
 public:
  ~SyntheticLayers();

  // rows: of the largest step; context: of the sequence.  ops outlives the layers and is prepared here.
  // The layers have experts and dense weights of their own, but expert e of every layer is the same memory: never two
  // experts of one layer.  kResourceExhausted when there is no room.
  static Result<std::unique_ptr<SyntheticLayers>> make(const deepseek_v41::Config& slice, int64_t rows, int64_t context,
                                                       Ops& ops);

  // Bytes of memory that make() needs for the weights.
  static uint64_t weight_bytes(const deepseek_v41::Config& slice);

  // Runs `rows` tokens at `position` through all layers, without the head.
  void run(int64_t position, int64_t rows);

  // Each layer of the next step takes its own experts: first, first + 1, ... from `first` on, layer after layer.
  void force_experts(int64_t first);
  void free_experts();

  // Bytes that one token at `position` reads: weights of all layers, its experts, cached records.
  uint64_t bytes_of_token(int64_t position) const;
  // Bytes of weights that a step of `rows` reads, each once: dense weights and the experts that so many rows choose.
  uint64_t weight_bytes_of_step(int64_t rows) const;
  // Floating-point operations of `rows` tokens from `position` on: products and attention.
  double operations(int64_t position, int64_t rows) const;

  // Whether the last step's residual stream was finite: a broken benchmark must not look fast.
  bool finite() const { return finite_; }

 private:
  class FiniteProbe;

  explicit SyntheticLayers(const deepseek_v41::Config& slice);
  Status generate_weights();
  uint64_t dense_bytes() const;
  uint64_t expert_bytes() const;

  deepseek_v41::Config config_;
  deepseek_v41::LayerTable table_;
  deepseek_v41::CacheGroups groups_;
  deepseek_v41::EngramHash hash_;
  deepseek_v41::Weights weights_;
  std::vector<Buffer> memory_;
  std::vector<float*> gate_biases_;  // of each layer, [experts]
  std::vector<int32_t> tokens_;
  std::unique_ptr<SequenceCache> cache_;
  std::unique_ptr<deepseek_v41::Forward> forward_;
  std::unique_ptr<FiniteProbe> probe_;
  bool finite_ = true;
};

}  // namespace deepinfer::bench
