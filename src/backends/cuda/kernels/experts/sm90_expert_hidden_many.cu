// Gate, up and SwiGLU for many rows: see many_stages.cuh.  A warpgroup has 32 hidden units, one group of the FP8
// rounding; a thread has gate and up of the same unit.
#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/activation.cuh"
#include "backends/cuda/kernels/experts/many_launch.cuh"

namespace deepinfer::cuda {
namespace {

struct Epilogue {
  const ManyArguments& arguments;
  float (*largest)[4][kTileRows];  // [groups][warps][rows of x]

  // Row n of the tile, column `unit` of the image of w2's input: n = 8 j + 2 t + c of sums[4 j + c] (gate) and
  // sums[4 j + 2 + c] (up).
  template <int kColumns>
  __device__ __forceinline__ void run(float (&sums)[kColumns / 2], const ManyUnit& own, int group) const {
    const Experts& experts = arguments.experts;
    const int lane = lane_id(), warp = warp_id() % 4, t = lane % 4, of_warp = lane / 4;
    const int top_k = static_cast<int>(experts.expert.columns), choices = static_cast<int>(experts.x.rows) * top_k;
    const int32_t* const choice = arguments.tiles.choice + own.tile.first_group * kImageRows;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int n = 8 * j + 2 * t + c, of_row = n < own.tile.rows ? choice[n] : choices;
        const float weight = of_row >= choices ? 1.0f : row_of(experts.weight, of_row / top_k)[of_row % top_k];
        const float h = activated(widen(round_to_bf16(sums[4 * j + c])), widen(round_to_bf16(sums[4 * j + 2 + c])),
                                  experts.limit, weight);
        float most = fabsf(h);
#pragma unroll
        for (int step = 4; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, step));
        if (of_warp == 0) largest[group][warp][n] = most;
        sums[4 * j + c] = h;
      }
    asm volatile("bar.sync %0, 128;\n" ::"r"(1 + group) : "memory");
    const int unit = own.weight_tile * (kManyWeightRows / 2) + group * 32 + warp * 8 + of_warp;
    const int chunks = static_cast<int>(experts.width) / kExpertChunk, hi = of_warp / 4, pair = warp * 4 + of_warp % 4;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      uint32_t value[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int n = 8 * j + 2 * t + c;
        const float most =
            fmaxf(fmaxf(largest[group][0][n], largest[group][1][n]), fmaxf(largest[group][2][n], largest[group][3][n]));
        const uint32_t scale = fp8_scale(most);
        value[c] =
            round_to_bf16(e4m3_value(e4m3_code(sums[4 * j + c] * reciprocal_of_scale(scale))) * e8m0_value(scale)).bits;
      }
      // Units u and u + 4 are neighbours in the image: of two lanes with them each stores both for one row.
      const uint32_t other = __shfl_xor_sync(kAllLanes, hi == 0 ? value[1] : value[0], 16);
      const int n = 8 * j + 2 * t + hi;
      if (n < own.tile.rows) {
        std::byte* const to = arguments.tiles.hidden +
                              (int64_t{own.tile.first_group + j} * chunks + unit / kExpertChunk) * kImageChunkBytes;
        *reinterpret_cast<uint32_t*>(to + image_offset(n % kImageRows, pair, unit % kExpertChunk / 32)) =
            hi == 0 ? value[0] | other << 16 : other | value[1] << 16;
      }
    }
    asm volatile("bar.sync %0, 128;\n" ::"r"(1 + group) : "memory");  // `largest` has been read
  }
};

template <LinearWeight::Format kFormat>
__global__ void __launch_bounds__(kManyThreads, 1) expert_hidden_many(const __grid_constant__ ManyArguments arguments) {
  __shared__ float largest[2][4][kTileRows];
  many_run<kFormat, true>(arguments, Epilogue{arguments, largest});
}

}  // namespace

Status sm90_expert_hidden_many(const Experts& experts, const ExpertTiles& tiles, Stream stream) {
  using Format = LinearWeight::Format;
  const ManyArguments arguments = many_arguments(experts, tiles, true);
  if (experts.expert.columns > 0)
    DI_RETURN_IF_ERROR(
        launch_many<Format::kFp4>(expert_hidden_many<Format::kFp4>, "sm90_expert_hidden_many", arguments, stream));
  if (experts.shared.w1 == nullptr) return {};
  return launch_many<Format::kFp8>(expert_hidden_many<Format::kFp8>, "sm90_expert_hidden_many", arguments, stream);
}

}  // namespace deepinfer::cuda
