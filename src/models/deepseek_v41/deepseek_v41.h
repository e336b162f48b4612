// DeepseekV41: the model (model.h) over a mapped checkpoint.  open_model() makes it; tests reach its parts.
#pragma once

#include <memory>

#include "models/deepseek_v41/cache_groups.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/engram_hash.h"
#include "models/deepseek_v41/forward.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/placed_weights.h"
#include "models/deepseek_v41/step_work.h"
#include "models/deepseek_v41/weights.h"
#include "models/model.h"
#include "models/open_model.h"
#include "tensor/checkpoint.h"

namespace deepinfer::deepseek_v41 {

class DeepseekV41 final : public Model {
 public:
  static Result<std::unique_ptr<DeepseekV41>> open(const ModelOptions& options, Ops& ops);

  const ModelInfo& info() const override { return info_; }
  const CacheLayout& cache_layout() const override { return groups_.layout; }
  MatrixView<float> forward(std::span<const StepSequence> step) override { return forward_->run(step); }
  DraftResult draft(std::span<const DraftSequence> sequences) override { return forward_->draft(sequences); }
  StepWork work(std::span<const StepSequence> step) const override { return work_->count(step); }
  bool resumable(const WrittenRows& written, int64_t position, const RowRule& rule) const override;
  int64_t draft_context_start(const RowRule& rule) const override;
  // weight_exchange.cpp
  Result<std::unique_ptr<PreparedWeights>> prepare_weights(const std::filesystem::path& folder) const override;
  void exchange_weights(PreparedWeights& weights) override;
  std::vector<PlacedWeights> placed_weights() const override { return rooms_.plan().kinds(); }

  const Config& config() const { return config_; }
  const LayerTable& layer_table() const { return table_; }
  const CacheGroups& cache_groups() const { return groups_; }
  const EngramHash& engram_hash() const { return hash_; }
  const Weights& weights() const { return weights_; }
  void set_probe(LayerProbe* probe) { forward_->probe = probe; }

 private:
  DeepseekV41(Config config, LayerTable table, Checkpoint checkpoint, int64_t ring_slack, Ops& ops);
  // Tables that are read by single rows where they are mapped.
  void expect_single_engram_rows(const Checkpoint& checkpoint) const;

  ModelInfo info_;
  Config config_;
  LayerTable table_;
  CacheGroups groups_;
  EngramHash hash_;
  bool allow_extra_tensors_ = false;
  Checkpoint checkpoint_;
  Weights weights_;    // views of checkpoint_ and of rooms_
  WeightRooms rooms_;  // copies of what is not read where it is mapped
  Ops& ops_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<StepWorkCount> work_;
};

}  // namespace deepinfer::deepseek_v41
