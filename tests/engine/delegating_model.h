// DelegatingModel: another model, for tests that change one of its calls.
#pragma once

#include <memory>
#include <utility>

#include "models/model.h"

namespace deepinfer {

class DelegatingModel : public Model {
 public:
  explicit DelegatingModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  const ModelInfo& info() const override { return model_->info(); }
  const CacheLayout& cache_layout() const override { return model_->cache_layout(); }
  MatrixView<float> forward(std::span<const StepSequence> step) override { return model_->forward(step); }
  DraftResult draft(std::span<const DraftSequence> sequences) override { return model_->draft(sequences); }
  StepWork work(std::span<const StepSequence> step) const override { return model_->work(step); }
  bool resumable(const WrittenRows& written, int64_t keep, const RowRule& rule) const override {
    return model_->resumable(written, keep, rule);
  }
  Result<std::unique_ptr<PreparedWeights>> prepare_weights(const std::filesystem::path& folder) const override {
    return model_->prepare_weights(folder);
  }
  void exchange_weights(PreparedWeights& weights) override { model_->exchange_weights(weights); }
  int64_t draft_context_start(const RowRule& rule) const override { return model_->draft_context_start(rule); }

 private:
  std::unique_ptr<Model> model_;
};

}  // namespace deepinfer
