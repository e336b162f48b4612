// How the kernels for few rows cut up an expert's weights; made by the host for a launch.
#pragma once

#include <algorithm>

#include "backends/cuda/kernels/experts/sm90_experts.h"

namespace deepinfer::cuda {

constexpr int kFewUnits = 8;     // hidden units of a tile, gate and up: 16 weight rows
constexpr int kFewOutputs = 32;  // outputs of a tile of an FP4 expert; of the FP8 one half as many, the same bytes
constexpr int kFewMostWarps = 16, kFewMostGroups = 8, kFewMostPlaces = 8;
constexpr int kFewShared = 227 * 1024 - 1024;  // bytes of a block: what barriers leave

struct FewPlan {
  int k = 0, chunks = 0, part_chunks = 0, parts = 0, groups = 0;
  int routed_tiles = 0;                   // of an expert, each a slot
  int shared_tiles = 0, shared_slots = 0;  // of the shared expert, each so many slots
  int first_columns = 0;                  // of two slots: the columns in the first
  int places = 0, slot_bytes = 0, scale_at = 0, scale_pitch = 0;

  int threads() const { return groups * parts * 32; }
};

// other_bytes: of shared memory, for everything but the ring.
inline FewPlan few_plan(const Experts& experts, bool hidden, int other_bytes) {
  const auto rounded = [](int bytes) { return (bytes + 127) / 128 * 128; };
  const int d = static_cast<int>(experts.x.columns), width = static_cast<int>(experts.width);
  FewPlan plan;
  plan.k = hidden ? d : width;
  plan.chunks = expert_chunks(plan.k);
  plan.part_chunks = expert_part_chunks(plan.k);
  plan.parts = expert_parts(plan.k);
  plan.groups = std::min(kFewMostGroups, kFewMostWarps / plan.parts);
  plan.routed_tiles = hidden ? width / kFewUnits : d / kFewOutputs;
  plan.shared_tiles = experts.shared.w1 == nullptr ? 0 : hidden ? width / kFewUnits : d / (kFewOutputs / 2);
  plan.shared_slots = hidden && plan.parts > 1 ? 2 : 1;
  plan.first_columns = plan.k;
  if (plan.shared_slots == 2) plan.first_columns = (plan.parts + 1) / 2 * plan.part_chunks * kExpertChunk;
  const int scales = plan.k / 32;
  plan.scale_at = rounded(16 * std::max(hidden ? plan.k / 2 : plan.k, plan.first_columns));
  plan.scale_pitch = (hidden ? kFewUnits : kFewOutputs) * scales / 16 * 16 + 32;
  plan.slot_bytes = rounded(plan.scale_at + (hidden ? 2 : 1) * plan.scale_pitch);
  plan.places = std::min(kFewMostPlaces, (kFewShared - other_bytes) / plan.slot_bytes);
  return plan;
}

}  // namespace deepinfer::cuda
