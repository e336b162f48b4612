// What an engine plans of a device's memory before its threads start: weights and scratch memory first, then graphs,
// and the cache's pool of what is left.  Used by engine_setup.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "models/cache_layout.h"
#include "models/model.h"
#include "scheduling/cache/cache_coordinator.h"
#include "tensor/memory.h"

namespace deepinfer {

// Kept free for graphs of steps, and for what the driver takes when kernels are first launched.
inline constexpr uint64_t kKeptForGraphs = uint64_t{256} << 20;

// Bytes for the cache besides so many state slots.  kInvalidArgument where there is no device, kResourceExhausted where
// it has too little left.
Result<int64_t> remaining_cache_bytes(const Model& model, int64_t state_slots, const Memory& memory);

// A device may have less than a size that was given.
Status check_cache_room(const CacheGeometry& cache, const Model& model, const Memory& memory);

// The lines of what a device holds besides the cache, and of weights elsewhere.  taken: of its memory since the model
// was made; step_rows: most rows of a step.
std::vector<MemoryPlanLine> model_lines(const Model& model, uint64_t taken, int64_t step_rows);
// taken: of a device's memory by steps that ran at start.
MemoryPlanLine graphs_line(uint64_t taken);
// The cache's; tier_bytes: of the host tier, 0 without one.
std::vector<MemoryPlanLine> cache_lines(const CacheGeometry& cache, const CacheLayout& layout, int64_t tier_bytes);

}  // namespace deepinfer
