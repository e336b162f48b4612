// EngineSetup: everything an engine owns before its threads start: model, cache memory, scheduler.
#pragma once

#include <memory>
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
  StepCost step_cost;  // unknown where every draft is verified
  std::vector<MemoryPlanLine> memory_plan;
};

// Errors name the option and its range, or the file.
Result<EngineSetup> set_up_engine(const EngineOptions& options, std::unique_ptr<Ops> ops);

}  // namespace deepinfer
