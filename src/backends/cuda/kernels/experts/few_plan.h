// How the kernels for few rows cut up an expert's weights; made by the host for a launch.
#pragma once

#include <algorithm>

#include "backends/cuda/kernels/experts/sm90_experts.h"

namespace deepinfer::cuda {

constexpr int kFewUnits = 8;     // hidden units of a tile, gate and up: 16 weight rows
constexpr int kFewOutputs = 32;  // outputs of a tile of an FP4 expert; of the FP8 one half as many, the same bytes
constexpr int kFewMostPlaces = 12;
// Warps of a block: those that multiply, the one that asks for weights, those that finish sums.
constexpr int kFewMultiply = kExpertMostParts, kFewFinish = 3, kFewThreads = (kFewMultiply + 1 + kFewFinish) * 32;
constexpr int kFewSumBuffers = 3;
// Sums of 16 weight rows by 8 columns: [columns][kSumPitch], such that neither side has bank conflicts.
constexpr int kSumPitch = 20;
constexpr int kSumFloats = 8 * kSumPitch;
constexpr int kFewShared = 227 * 1024 - 1024;  // bytes of a block: what barriers leave

struct FewPlan {
  int k = 0, chunks = 0, parts = 0, groups = 0;
  int routed_tiles = 0;                    // of an expert, each a slot
  int shared_tiles = 0, shared_slots = 0;  // of the shared expert, each so many slots
  int first_columns = 0;                   // of two slots: the columns in the first
  int places = 0, slot_bytes = 0, scale_at = 0, scale_pitch = 0;
  int sum_floats = 0;  // of a buffer: [tiles of 16 rows][parts][kSumFloats]
  int shared_bytes = 0;
};

// other_bytes: of shared memory, for everything but ring and sums.
inline FewPlan few_plan(const Experts& experts, bool hidden, int other_bytes) {
  const auto rounded = [](int bytes) { return (bytes + 127) / 128 * 128; };
  const int d = static_cast<int>(experts.x.columns), width = static_cast<int>(experts.width);
  FewPlan plan;
  plan.k = hidden ? d : width;
  plan.chunks = expert_chunks(plan.k);
  plan.parts = expert_parts(plan.k);
  plan.routed_tiles = hidden ? width / kFewUnits : d / kFewOutputs;
  plan.shared_tiles = experts.shared.w1 == nullptr || experts.x.rows >= experts.heavy_rows ? 0
                      : hidden                                                             ? width / kFewUnits
                                                                                           : d / (kFewOutputs / 2);
  plan.shared_slots = hidden && plan.parts > 1 ? 2 : 1;
  plan.first_columns = plan.k;
  if (plan.shared_slots == 2) plan.first_columns = (plan.parts + 1) / 2 * kExpertPartChunks * kExpertChunk;
  const int scales = plan.k / 32;
  plan.scale_at = rounded(16 * std::max(hidden ? plan.k / 2 : plan.k, plan.first_columns));
  plan.scale_pitch = (hidden ? kFewUnits : kFewOutputs) * scales / 16 * 16 + 32;
  plan.slot_bytes = rounded(plan.scale_at + (hidden ? 2 : 1) * plan.scale_pitch);
  plan.sum_floats = (hidden ? 1 : kFewOutputs / 16) * plan.parts * kSumFloats;
  const int rest = other_bytes + kFewSumBuffers * plan.sum_floats * 4;
  plan.places = std::min(kFewMostPlaces, (kFewShared - rest) / plan.slot_bytes);
  // A group is never so far ahead of the one that asks for weights that the parity of a barrier would mislead it.
  plan.groups = std::max(1, std::min(kFewMultiply / plan.parts, plan.places / plan.shared_slots));
  plan.shared_bytes = plan.places * plan.slot_bytes + rest;
  return plan;
}

}  // namespace deepinfer::cuda
