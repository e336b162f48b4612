// The choices of few rows by expert, in shared memory: every block makes the list for itself, which takes less time
// than a kernel of its own.
#pragma once

#include <cstdint>

#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/few_plan.h"

namespace deepinfer::cuda {

struct FewChoices {
  uint16_t choice[kExpertFewChoices];      // row * top_k + place, by expert
  uint16_t first[kExpertFewMostExperts];   // of active expert i in `choice`
  uint16_t count[kExpertFewMostExperts];   // of active expert i
  uint16_t active[kExpertFewMostExperts];  // experts that have any, ascending
  int left[kExpertFewMostExperts];         // while the list is made, by expert
  uint16_t place[kExpertFewMostExperts];   // likewise
  int warp_choices[32], warp_active[32];
  int active_count;
};

// Of the experts that are not heavy (sm90_experts.h), by all warps of the block but the asking one (few_plan.h).  The
// order of an expert's choices is any.
__device__ __forceinline__ void list_few_choices(FewChoices& list, const MatrixView<const int32_t>& expert,
                                                 int expert_count, int64_t heavy_rows) {
  constexpr int threads = kFewThreads - 32;
  static_assert(2 * threads >= kExpertFewMostExperts, "two experts a thread");
  const int thread = static_cast<int>(threadIdx.x) - (warp_id() > kFewMultiply ? 32 : 0), lane = lane_id(),
            warp = thread / 32;
  const int top_k = static_cast<int>(expert.columns), choices = static_cast<int>(expert.rows) * top_k;
  const auto sync = [] { asm volatile("bar.sync 1, %0;\n" ::"n"(kFewThreads - 32) : "memory"); };
  const auto expert_of = [&](int choice) { return row_of(expert, choice / top_k)[choice % top_k]; };
  for (int e = thread; e < expert_count; e += threads) list.left[e] = 0;
  sync();
  for (int c = thread; c < choices; c += threads) {
    const int e = expert_of(c);
    if (e >= 0 && e < expert_count) atomicAdd(&list.left[e], 1);
  }
  sync();
  for (int e = thread; e < expert_count; e += threads)
    if (list.left[e] >= heavy_rows) list.left[e] = 0;
  sync();
  // Two neighbouring experts a thread.
  const int e0 = 2 * thread, e1 = e0 + 1;
  const int count0 = e0 < expert_count ? list.left[e0] : 0, count1 = e1 < expert_count ? list.left[e1] : 0;
  int before = count0 + count1, active_before = (count0 > 0) + (count1 > 0);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, before, step);
    const int other_active = __shfl_up_sync(kAllLanes, active_before, step);
    if (lane >= step) {
      before += other;
      active_before += other_active;
    }
  }
  if (lane == 31) {
    list.warp_choices[warp] = before;
    list.warp_active[warp] = active_before;
  }
  sync();
  before -= count0 + count1;
  active_before -= (count0 > 0) + (count1 > 0);
  int all_active = 0;
  for (int w = 0; w < threads / 32; ++w) {
    if (w < warp) {
      before += list.warp_choices[w];
      active_before += list.warp_active[w];
    }
    all_active += list.warp_active[w];
  }
  const auto enter = [&](int e, int count) {
    if (count == 0) return;
    list.active[active_before] = static_cast<uint16_t>(e);
    list.first[active_before] = static_cast<uint16_t>(before);
    list.count[active_before] = static_cast<uint16_t>(count);
    list.place[e] = static_cast<uint16_t>(before);
    before += count;
    ++active_before;
  };
  enter(e0, count0);
  enter(e1, count1);
  if (thread == 0) list.active_count = all_active;
  sync();
  for (int c = thread; c < choices; c += threads) {
    const int e = expert_of(c);
    if (e < 0 || e >= expert_count) continue;
    const int left = atomicSub(&list.left[e], 1);
    if (left > 0) list.choice[list.place[e] + left - 1] = static_cast<uint16_t>(c);  // else the expert is heavy
  }
  sync();
}

}  // namespace deepinfer::cuda
