// How a row is spread over a cluster, and what lies where in a block's shared memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/launch/sequence_list.h"

namespace deepinfer::cuda::row_attention {

constexpr int kHeads = kSm90AttentionHeads, kHeadDim = kSm90AttentionHeadDim;
constexpr int kThreads = 512;
constexpr int kChunks = kHeadDim / 64;  // of 64 channels: a row of 128 bytes
constexpr int kRowBytes = 128;
constexpr uint32_t kCompressedBytes = main_kv_record_bytes(kHeadDim), kWindowBytes = fp8_record_bytes(kHeadDim);
constexpr float kNoScore = -1e30f;  // the floor of the maximum

// Blocks: of a cluster.  Groups: warpgroups that multiply.  Slots: of a group, at the scores.  Stages: of the ring.
// StageSlots: of a stage, at the values.  Ahead: stages whose records are fetched before they are decoded.
template <int Blocks, int Groups, int Slots, int Stages, int StageSlots, int ScoresAhead, int ValuesAhead>
struct Shape {
  static constexpr int kBlocks = Blocks, kGroups = Groups, kGroupSlots = Slots, kStages = Stages;
  static constexpr int kStageSlots = StageSlots, kScoresAhead = ScoresAhead, kValuesAhead = ValuesAhead;
  static constexpr int kBlockSlots = Groups * Slots;
  static constexpr int kSlots = Blocks * kBlockSlots;  // of a row, at most
  static constexpr int kChannels = kHeadDim / Blocks, kGroupChannels = kChannels / Groups;
  static constexpr int kScoreItems = (kBlockSlots * 4 + kThreads - 1) / kThreads;
  static constexpr int kValueItems = (StageSlots * kChannels / 16 + kThreads - 1) / kThreads;
  static constexpr int kValueStages = (kSlots + StageSlots - 1) / StageSlots;
  static constexpr int kDecodedAhead = std::min(kValueStages, std::max(1, Stages - 2));

  static constexpr int kStageBytes = std::max(kBlockSlots * kRowBytes, StageSlots* kChannels * 2);
  static constexpr int kUnits = kSlots / 16;
  // Offsets in shared memory.  The numerators lie where q has been.
  static constexpr int kQuery = kStages * kStageBytes;
  static constexpr int kSums = kQuery + std::max(kHeads * kHeadDim * 2, kSlots* kHeads * 2);
  static constexpr int kMaxima = kSums + kUnits * kHeads * 4;
  static constexpr int kRecords = kMaxima + Blocks * Groups * kHeads * 4;
  static constexpr int kDenominators = kRecords + kSlots * 8;
  static constexpr int kBytes = kDenominators + kHeads * 4 + 1024;  // 1,024: for the alignment
  static_assert(Slots % 16 == 0 && kGroupChannels % 64 == 0 && kStageBytes % 1024 == 0);
  static_assert(kBytes + 64 <= 227 * 1024);
};

struct Arguments {
  SparseAttention op;
  SequenceList<AttentionSequence> list;
  float scale;  // head_dim^-0.5 kStoredFactor
};

// What is said of a row once.
struct Row {
  int count;     // slots
  int window;    // of them window rows: the first ones
  bool aligned;  // all records, to 16 bytes
};

// A value that is the same in all lanes of a warp; the compiler learns it, which branches around wgmma need.
__device__ __forceinline__ int uniform(int value) {
  return __shfl_sync(kAllLanes, value, 0);
}

// Where the record of a slot lies: shared, [slots].
using Records = const uint8_t* const*;

// Where a thread and its block stand in the row.  Group: the warpgroup.
template <typename S>
struct Place {
  std::byte* memory;
  uint32_t stages, query;
  Records records;
  float* sums;    // [unit][head]: of 16 slots
  float* maxima;  // [block][group][head]
  float* denominators;
  int own, lane, group, rank;
  int units;                  // of 16 slots, of the row
  int first_slot, own_slots;  // of the block, at the scores
  int group_slot;
  // Of a group's fragments: rows head and head + 8, columns 8 j + column and the next.
  int head, column;

  __device__ __forceinline__ int slots_of_block(int block) const {
    return min(max(units * 16 - block * S::kBlockSlots, 0), S::kBlockSlots);
  }
};

template <typename S>
__device__ __forceinline__ Place<S> place_of(const Row& row, std::byte* memory) {
  Place<S> place;
  place.memory = memory;
  place.stages = shared_address(memory);
  place.query = place.stages + S::kQuery;
  place.records = reinterpret_cast<Records>(memory + S::kRecords);
  place.sums = reinterpret_cast<float*>(memory + S::kSums);
  place.maxima = reinterpret_cast<float*>(memory + S::kMaxima);
  place.denominators = reinterpret_cast<float*>(memory + S::kDenominators);
  place.own = static_cast<int>(threadIdx.x);
  place.lane = lane_id();
  place.group = uniform(place.own / 128);
  place.rank = static_cast<int>(cluster_rank());
  place.units = (row.count + 15) / 16;
  place.first_slot = place.rank * S::kBlockSlots;
  place.own_slots = place.slots_of_block(place.rank);
  place.group_slot = place.first_slot + place.group * S::kGroupSlots;
  place.head = place.own % 128 / 32 * 16 + place.lane / 4;
  place.column = place.lane % 4 * 2;
  return place;
}

}  // namespace deepinfer::cuda::row_attention
