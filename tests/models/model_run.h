// A model (the demonstration model unless told otherwise) on a backend, and one sequence of it: what the suites of this
// folder drive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "models/deepseek_v41/deepseek_v41.h"
#include "models/sequence_cache.h"
#include "ops/ops_backend.h"

namespace deepinfer {

// A model and the backend it runs on.
class LoadedModel {
 public:
  explicit LoadedModel(const OpsBackend& backend,
                       const StepLimits& limits = {.rows = 512, .sequences = 3, .logit_rows = 512},
                       const std::filesystem::path& folder = DEEPINFER_TEST_MODEL);

  deepseek_v41::DeepseekV41& model() { return *model_; }
  Ops& ops() { return *ops_; }
  Memory& memory() { return ops_->memory(); }

 private:
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<deepseek_v41::DeepseekV41> model_;
};

using Logits = std::vector<std::vector<float>>;  // of one row each

// Rows of a matrix in a backend's memory.
template <typename T>
std::vector<std::vector<std::remove_const_t<T>>> read_rows(Memory& memory, const MatrixView<T>& matrix) {
  std::vector<std::vector<std::remove_const_t<T>>> rows(static_cast<size_t>(matrix.rows));
  for (int64_t i = 0; i < matrix.rows; ++i) {
    auto& row = rows[static_cast<size_t>(i)];
    row.resize(static_cast<size_t>(matrix.columns));
    memory.read(row.data(), matrix.row(i), row.size() * sizeof(T));
  }
  return rows;
}

// One sequence: its tokens so far, its cache and the rule of its rows.
class SequenceRun {
 public:
  explicit SequenceRun(LoadedModel& loaded, RowRule rule = {});

  void set_rule(RowRule rule) { rule_ = rule; }
  int64_t processed() const { return static_cast<int64_t>(tokens_.size()); }
  // Runs tokens in steps of at most `chunk` rows; logits of positions >= logits_from.
  Logits run(std::span<const int32_t> tokens, int64_t chunk, int64_t logits_from);
  // Forgets the tokens from `length` on, as after rejected drafts.
  void truncate(int64_t length) { tokens_.resize(static_cast<size_t>(length)); }
  // One step's part, for steps of several sequences.  advance() afterwards.
  StepSequence part(std::span<const int32_t> tokens, int64_t logits_from);
  DraftSequence draft_part(int32_t token, int drafts);

  CacheView cache() const { return cache_.view(); }
  // Every record that later steps may read, group after group: histories up to the length, window rows as far back as
  // they count (decoder windows under kExact: those the rule keeps), the pending half group, the draft context.
  std::vector<std::vector<uint8_t>> live_records() const;

 private:
  // Never-written records decode to NaN: reading one would show.
  void poison(std::byte* data, int64_t bytes);

  LoadedModel& loaded_;
  SequenceCache cache_;
  RowRule rule_;
  std::vector<int32_t> tokens_;
};

}  // namespace deepinfer
