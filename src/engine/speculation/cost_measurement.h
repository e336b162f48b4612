// Measures a StepCost on the engine's own model and memory, before the first request, and keeps it on disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/cache_memory.h"
#include "engine/speculation/step_cost.h"
#include "models/model.h"

namespace deepinfer {

struct CostMeasurement {
  int most_sequences = 1;
  int64_t most_rows = 1;  // of a step
  Time budget{0};         // stops adding sizes when it is used up; the table then ends earlier
};

// Uses state slots and blocks from the first on: nothing may be in them yet.
StepCost measure_step_cost(Model& model, CacheMemory& memory, const CostMeasurement& what);

// The table as a JSON file.  `key` says what it was measured for: another key reads as absent, as does a file that is
// not such a table.
std::optional<StepCost> load_step_cost(const std::filesystem::path& file, const std::string& key);
Status save_step_cost(const std::filesystem::path& file, const std::string& key, const StepCost& cost);

}  // namespace deepinfer
