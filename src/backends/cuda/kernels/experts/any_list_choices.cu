// Two kernels: one warp an expert looks through all choices; then one warp lists the experts that have any.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/experts.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kWarps = 4;

struct Arguments {
  MatrixView<const int32_t> expert;
  int expert_count;
  ExpertChoices choices;
};

__global__ void __launch_bounds__(kWarps * 32) list_choices(const Arguments arguments) {
  follow_previous_kernels();
  const int expert = static_cast<int>(blockIdx.x) * kWarps + warp_id(), lane = lane_id();
  if (expert >= arguments.expert_count) return;
  const int64_t rows = arguments.expert.rows, top_k = arguments.expert.columns;
  int32_t* list = arguments.choices.choice + expert * rows;
  int count = 0;
  for (int64_t first = 0; first < rows * top_k; first += 32) {
    const int64_t choice = first + lane;
    const bool mine = choice < rows * top_k && row_of(arguments.expert, choice / top_k)[choice % top_k] == expert;
    const unsigned lanes = __ballot_sync(kAllLanes, mine);
    if (mine) list[count + __popc(lanes & ((1u << lane) - 1))] = static_cast<int32_t>(choice);
    count += __popc(lanes);
  }
  if (lane == 0) arguments.choices.count[expert] = count;
}

__global__ void __launch_bounds__(32) list_active(const Arguments arguments) {
  follow_previous_kernels();
  const int lane = lane_id();
  int found = 0;
  for (int first = 0; first < arguments.expert_count; first += 32) {
    const int expert = first + lane;
    const bool any = expert < arguments.expert_count && arguments.choices.count[expert] > 0;
    const unsigned lanes = __ballot_sync(kAllLanes, any);
    if (any) arguments.choices.active[found + __popc(lanes & ((1u << lane) - 1))] = expert;
    found += __popc(lanes);
  }
  if (lane == 0) *arguments.choices.active_count = found;
}

}  // namespace

Status any_list_choices(MatrixView<const int32_t> expert, int expert_count, const ExpertChoices& choices,
                        Stream stream) {
  const Arguments arguments{expert, expert_count, choices};
  DI_RETURN_IF_ERROR(launch(list_choices, "any_list_choices, choices", dim3(blocks(divided_up(expert_count, kWarps))),
                            kWarps * 32, 0, stream, arguments, kEarly));
  return launch(list_active, "any_list_choices, active experts", dim3(1), 32, 0, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
