// The product with w2 for many rows: see many_stages.cuh.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/kernels/experts/many_launch.cuh"

namespace deepinfer::cuda {
namespace {

struct Epilogue {
  const ManyArguments& arguments;

  // sums[4 j + 2 i + c]: output lane / 4 + 8 i of the warp's 16, row 8 j + 2 t + c of the tile.
  template <int kColumns>
  __device__ __forceinline__ void run(float (&sums)[kColumns / 2], const ManyUnit& own, int group) const {
    const int lane = lane_id(), t = lane % 4;
    const int output = own.weight_tile * kManyWeightRows + group * 64 + warp_id() % 4 * 16 + lane / 4;
    const int32_t* const choice = arguments.tiles.choice + own.tile.first_group * kImageRows;
    const int64_t d = arguments.experts.x.columns;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int n = 8 * j + 2 * t + c;
        if (n >= own.tile.rows) continue;
        bf16* const to = arguments.experts.outputs + choice[n] * d + output;
        to[0] = round_to_bf16(sums[4 * j + c]);
        to[8] = round_to_bf16(sums[4 * j + 2 + c]);
      }
  }
};

template <LinearWeight::Format kFormat>
__global__ void __launch_bounds__(kManyThreads, 1) expert_output_many(const __grid_constant__ ManyArguments arguments) {
  many_run<kFormat, false>(arguments, Epilogue{arguments});
}

}  // namespace

bool sm90_experts_many_takes(int64_t d, int64_t width) {
  return d % 256 == 0 && width % 128 == 0;
}

Status sm90_expert_output_many(const Experts& experts, const ExpertTiles& tiles, Stream stream) {
  using Format = LinearWeight::Format;
  const ManyArguments arguments = many_arguments(experts, tiles, false);
  if (experts.expert.columns > 0)
    DI_RETURN_IF_ERROR(
        launch_many<Format::kFp4>(expert_output_many<Format::kFp4>, "sm90_expert_output_many", arguments, stream));
  if (experts.shared.w1 == nullptr) return {};
  return launch_many<Format::kFp8>(expert_output_many<Format::kFp8>, "sm90_expert_output_many", arguments, stream);
}

}  // namespace deepinfer::cuda
