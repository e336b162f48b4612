// SyntheticLayers: layers of a released config's dimensions with generated weights, ready to run steps.
// For model_bench: a machine that cannot hold the model can still be measured on some of its layers; for gpu_model: all
// layers, whose experts share memory.
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

// The whole network of the config without Engram, draft and picture encoder.
deepseek_v41::Config whole_network(const deepseek_v41::Config& released);

struct SyntheticPlan {
  int64_t rows = 1;       // of the largest step
  int64_t sequences = 1;  // likewise
  int64_t context = 1;    // of the longest sequence
  int expert_layers = 1;  // layers that have experts of their own; the others take theirs in turn
};

class SyntheticLayers {
 public:
  ~SyntheticLayers();

  // ops outlives the layers and is prepared here.  All layers have dense weights of their own, experts as planned:
  // never two experts of one layer are the same memory.  kResourceExhausted when there is no room.
  static Result<std::unique_ptr<SyntheticLayers>> make(const deepseek_v41::Config& slice, const SyntheticPlan& plan,
                                                       Ops& ops);

  // Fresh caches for so many sequences of so many tokens; make() makes those of one of the plan's context.
  Status make_caches(int64_t sequences, int64_t context);

  // Bytes of memory that make() needs for the weights, and for the cache of one sequence.
  static uint64_t weight_bytes(const deepseek_v41::Config& slice, int expert_layers = 1);
  static uint64_t cache_bytes(const deepseek_v41::Config& slice, int64_t context);

  // Runs `rows` tokens of each of the first `sequences` at `position` through all layers.  Returns the logits of the
  // last `logits` rows of each.
  MatrixView<float> run(int64_t position, int64_t rows, int64_t sequences = 1, int64_t logits = 0);

  // Experts of all layers that such a step takes, each once a layer.  Runs it.
  int64_t distinct_experts(int64_t position, int64_t sequences);

  // Fills the cached records of all sequences with numbers, as if tokens had been there.
  void fill_records();

  // Each layer of the next step takes its own experts: first, first + 1, ... from `first` on, layer after layer.
  void force_experts(int64_t first);
  void free_experts();

  // Bytes that one token at `position` reads: weights of all layers, its experts, cached records.
  uint64_t bytes_of_token(int64_t position) const;
  // Bytes of weights that a step of `rows` reads, each once: dense weights and the experts that so many rows choose.
  uint64_t weight_bytes_of_step(int64_t rows) const;
  // Bytes of the cached records that a token at `position` reads.
  uint64_t record_bytes_of_token(int64_t position) const;
  // Weights outside routed experts; one routed expert.
  uint64_t dense_bytes() const;
  uint64_t expert_bytes() const;
  // Floating-point operations of `rows` tokens from `position` on: products and attention.
  double operations(int64_t position, int64_t rows) const;

  // Whether the last step's residual stream was finite: a broken benchmark must not look fast.  In host memory only.
  bool finite() const { return finite_; }

 private:
  class FiniteProbe;

  SyntheticLayers(const deepseek_v41::Config& slice, const SyntheticPlan& plan, Memory& memory);
  Status generate_weights();
  void set_gate_bias(const std::vector<float>& bias, size_t layer);

  deepseek_v41::Config config_;
  SyntheticPlan plan_;
  Memory& memory_;
  deepseek_v41::LayerTable table_;
  deepseek_v41::CacheGroups groups_;
  deepseek_v41::EngramHash hash_;
  deepseek_v41::Weights weights_;
  Buffer weight_memory_;
  std::vector<float*> gate_biases_;           // of each layer, [experts]
  std::vector<std::vector<int32_t>> tokens_;  // of each sequence
  std::vector<SequenceCache> caches_;         // likewise
  std::unique_ptr<deepseek_v41::Forward> forward_;
  std::unique_ptr<FiniteProbe> probe_;
  bool finite_ = true;
  ChoiceSink* listener_ = nullptr;  // of every sequence
};

}  // namespace deepinfer::bench
