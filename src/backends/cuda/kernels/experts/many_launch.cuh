// The launch of a kernel for many rows: clusters of two blocks on all multiprocessors, dependent on the kernel before.
#pragma once

#include <string_view>

#include "backends/cuda/kernels/experts/many_stages.cuh"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {

inline ManyArguments many_arguments(const Experts& experts, const ExpertTiles& tiles, bool hidden) {
  const auto d = static_cast<int>(experts.x.columns), width = static_cast<int>(experts.width);
  const int k = hidden ? d : width;
  return {experts,
          tiles,
          k,
          expert_chunks(k),
          expert_parts(k),
          hidden ? 2 * width / (kManyCluster * kManyWeightRows) : d / (kManyCluster * kManyWeightRows)};
}

template <LinearWeight::Format kFormat>
Status launch_many(void (*kernel)(ManyArguments), std::string_view name, const ManyArguments& arguments,
                   Stream stream) {
  constexpr int kShared = ManyStages<kFormat>::kShared;
  DI_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch(kernel, name, dim3(static_cast<unsigned>(multiprocessors / kManyCluster * kManyCluster)), kManyThreads,
                kShared, stream, arguments, {.cluster = kManyCluster, .early = true});
}

}  // namespace deepinfer::cuda
