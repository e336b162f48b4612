// How planning.cpp and admission.cpp put block ids into a plan.
#pragma once

#include <span>

#include "scheduling/cache/cache_coordinator.h"
#include "scheduling/plan.h"

namespace deepinfer {

inline BlockRange append(StepPlan& plan, std::span<const BlockId> blocks) {
  const BlockRange range{static_cast<int64_t>(plan.block_ids.size()), static_cast<int64_t>(blocks.size())};
  plan.block_ids.insert(plan.block_ids.end(), blocks.begin(), blocks.end());
  return range;
}

inline SnapshotCopy copy_of(RequestId request, const SnapshotPlace& place, StepPlan& plan) {
  return {.request = request,
          .kind = place.info.kind,
          .position = place.info.position,
          .blocks = append(plan, place.blocks)};
}

}  // namespace deepinfer
