// NullModel: a model that computes nothing, so that everything around it can be measured and tested at lengths and
// numbers of requests that no model on this machine would reach.  Each row's logits are zeros, and one for the token
// that follows the row's own (token + 1 modulo the vocabulary); every prefix can be gone on from.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"

namespace deepinfer::bench {

struct NullModelOptions {
  int32_t vocabulary = 16;
  int64_t max_context = int64_t{1} << 20;
  // Processor time of a forward pass, spent for nothing: the threads around it fall asleep meanwhile, as in real steps.
  std::chrono::microseconds busy{0};
};

class NullModel final : public Model {
 public:
  // Prepares ops for the sampler.
  static Result<std::unique_ptr<Model>> create(const NullModelOptions& options, const StepLimits& limits, Ops& ops);

  const ModelInfo& info() const override { return info_; }
  const CacheLayout& cache_layout() const override { return layout_; }
  MatrixView<float> forward(std::span<const StepSequence> step) override;
  DraftResult draft(std::span<const DraftSequence>) override { return {}; }
  StepWork work(std::span<const StepSequence>) const override { return {}; }
  bool resumable(const WrittenRows&, int64_t, const RowRule&) const override { return true; }
  Result<std::unique_ptr<PreparedWeights>> prepare_weights(const std::filesystem::path&) const override {
    return unsupported("a null model has no weights");
  }
  void exchange_weights(PreparedWeights&) override {}
  int64_t draft_context_start(const RowRule&) const override { return 0; }

 private:
  NullModel(const NullModelOptions& options, const StepLimits& limits);

  void spend_time() const;

  std::chrono::nanoseconds busy_;
  ModelInfo info_;
  CacheLayout layout_;
  std::vector<float> logits_;    // [most rows, vocabulary]
  std::vector<int32_t> raised_;  // of each row, the token with a one
};

}  // namespace deepinfer::bench
