// The rows of the expert that a block works for: blockIdx.y counts active experts.
#pragma once

#include <cstdint>

#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/experts.h"

namespace deepinfer::cuda {

struct ExpertRows {
  int expert = 0;
  int64_t count = 0;
  const int32_t* list = nullptr;  // null: choice i is i

  __device__ int64_t choice(int64_t i) const { return list == nullptr ? i : list[i]; }
};

// No rows where there are fewer active experts.
__device__ __forceinline__ ExpertRows rows_of_block(const ExpertStep& step) {
  if (step.choices.choice == nullptr) return {0, step.x.rows, nullptr};
  if (static_cast<int>(blockIdx.y) >= *step.choices.active_count) return {};
  const int expert = step.choices.active[blockIdx.y];
  return {expert, step.choices.count[expert], step.choices.choice + expert * step.x.rows};
}

// At most as many experts are active as there are choices.
inline unsigned most_active(const ExpertStep& step) {
  const int64_t choices = step.choices.choice == nullptr ? 1 : step.weight.rows * step.weight.columns;
  return static_cast<unsigned>(choices < step.expert_count ? choices : step.expert_count);
}

}  // namespace deepinfer::cuda
