// EngineSetup: everything an engine owns before its threads start: model, cache memory, scheduler.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/cache_memory.h"
#include "engine/engine.h"
#include "engine/speculation/step_cost.h"
#include "models/model.h"
#include "scheduling/scheduler.h"

namespace deepinfer {

// Model::resumable as the scheduler asks for it.
class ModelSnapshotRule final : public SnapshotRule {
 public:
  explicit ModelSnapshotRule(const Model& model) : model_(model) {}
  bool usable(const SnapshotInfo& snapshot, int64_t logits_from) const override;

 private:
  const Model& model_;
};

struct EngineSetup {
  EngineOptions options;  // with every default resolved
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;  // refers to ops
  std::unique_ptr<CacheMemory> memory;
  std::unique_ptr<ModelSnapshotRule> rule;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<KvStore> tier_store;  // null: there is no tier below the block pool
  std::string cache_identity;           // of the tier's records; empty: there is none
  std::string tokenizer_checksum;       // of tokenizer.json; empty: the folder has none
  StepCost step_cost;                   // unknown where every draft is verified
  std::vector<MemoryPlanLine> memory_plan;
};

// Errors name the option and its range, or the file.
Result<EngineSetup> set_up_engine(const EngineOptions& options, std::unique_ptr<Ops> ops);

// Whether there is a tier below the block pool.
bool wants_tier(const EngineOptions& options);
// Everything that the bytes of cached records depend on, but for the tokens: with the weights of `folder`.
Result<std::string> cache_identity(const EngineSetup& setup, const std::filesystem::path& folder);
Result<std::unique_ptr<KvStore>> open_tier_store(const EngineOptions& options, const std::string& identity);
// An error when the folder has a tokenizer.json that is not that of the model that was opened.
Status check_same_tokenizer(const EngineSetup& setup, const std::filesystem::path& folder);

}  // namespace deepinfer
