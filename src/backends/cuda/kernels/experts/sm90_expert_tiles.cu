// One block lists the choices of heavy experts: a histogram in shared memory, its sum over experts, and places by
// counting down.  Then a warp takes a group of 8 listed rows and a chunk of 128 columns at a time.
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/experts/expert_chunks.cuh"
#include "backends/cuda/kernels/experts/expert_image.cuh"
#include "backends/cuda/kernels/experts/sm90_experts.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 1024;  // of the block that lists; at least kExpertFewMostExperts + 1
constexpr int kWarps = 8;       // of a block that gathers

struct Arguments {
  Experts experts;
  ExpertTiles tiles;
};

// Sums of the values of all threads before this one and of all.
struct Before {
  int before, all;
};
__device__ Before sum_before(int value) {
  __shared__ int of_warp[kThreads / 32];
  int sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane_id() >= step) sum += other;
  }
  __syncthreads();
  if (lane_id() == 31) of_warp[warp_id()] = sum;
  __syncthreads();
  Before result{sum - value, 0};
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp_id()) result.before += of_warp[w];
    result.all += of_warp[w];
  }
  return result;
}

__global__ void __launch_bounds__(kThreads) list_tiles(const Arguments arguments) {
  const Experts& experts = arguments.experts;
  const ExpertTiles& tiles = arguments.tiles;
  __shared__ int left[kThreads], place[kThreads];
  const int thread = static_cast<int>(threadIdx.x), expert_count = experts.expert_count;
  const int top_k = static_cast<int>(experts.expert.columns), rows = static_cast<int>(experts.x.rows);
  const int choices = rows * top_k;
  wait_for_previous_kernels();
  allow_next_kernel();
  const auto expert_of = [&](int choice) { return row_of(experts.expert, choice / top_k)[choice % top_k]; };
  left[thread] = 0;
  __syncthreads();
  for (int c = thread; c < choices; c += kThreads) {
    const int e = expert_of(c);
    if (e >= 0 && e < expert_count) atomicAdd(&left[e], 1);
  }
  __syncthreads();
  // The shared expert follows as one more, with all rows; its tiles are counted apart.
  const bool with_shared = experts.shared.w1 != nullptr && rows >= experts.heavy_rows;
  const bool shared = thread == expert_count && with_shared;
  const int count = shared ? rows : left[thread] >= experts.heavy_rows ? left[thread] : 0;
  if (count == 0) left[thread] = 0;
  const int own_tiles = (count + kTileRows - 1) / kTileRows;
  const Before groups = sum_before((count + kImageRows - 1) / kImageRows);
  const Before before = sum_before(shared ? 0 : own_tiles);
  place[thread] = groups.before * kImageRows;
  const int first_tile = shared ? before.all : before.before;
  for (int i = 0; i < own_tiles; ++i)
    tiles.tiles[first_tile + i] = {thread, groups.before + i * (kTileRows / kImageRows),
                                   min(count - i * kTileRows, kTileRows), first_tile, own_tiles};
  if (thread == 0) {
    tiles.counts->groups = groups.all;
    tiles.counts->routed_tiles = before.all;
    tiles.counts->shared_tiles = with_shared ? (rows + kTileRows - 1) / kTileRows : 0;
  }
  // Places behind an expert's last choice are nobody's.
  for (int i = count; i < (count + kImageRows - 1) / kImageRows * kImageRows; ++i) tiles.choice[place[thread] + i] = -1;
  __syncthreads();
  for (int c = thread; c < choices; c += kThreads) {
    const int e = expert_of(c);
    if (e < 0 || e >= expert_count) continue;
    const int of_expert = atomicSub(&left[e], 1);
    if (of_expert > 0) tiles.choice[place[e] + of_expert - 1] = c;  // else the expert is not heavy
  }
  if (with_shared)
    for (int m = thread; m < rows; m += kThreads) tiles.choice[place[expert_count] + m] = choices + m;
}

__global__ void __launch_bounds__(kWarps * 32) gather_rows(const Arguments arguments) {
  const Experts& experts = arguments.experts;
  const ExpertTiles& tiles = arguments.tiles;
  wait_for_previous_kernels();
  allow_next_kernel();
  const int group = static_cast<int>(blockIdx.x);
  if (group >= tiles.counts->groups) return;
  const int lane = lane_id(), row = lane / 4, t = lane % 4, top_k = static_cast<int>(experts.expert.columns);
  const int choices = static_cast<int>(experts.x.rows) * top_k;
  const int choice = tiles.choice[group * kImageRows + row];
  const unsigned rows_there = __ballot_sync(kAllLanes, choice >= 0);  // all four lanes of a row or none
  if (choice < 0) return;
  const bf16* const from = row_of(experts.x, choice >= choices ? choice - choices : choice / top_k);
  const int chunks = static_cast<int>(experts.x.columns) / kExpertChunk;
  for (int chunk = warp_id(); chunk < chunks; chunk += kWarps) {
    const auto* const columns = reinterpret_cast<const uint4*>(from + chunk * kExpertChunk + t * 32);
    std::byte* const to = tiles.x + (int64_t{group} * chunks + chunk) * kImageChunkBytes;
    uint32_t pairs[kChunkPairs];
#pragma unroll
    for (int j = 0; j < 4; ++j) pair_columns(pairs + 4 * j, columns[j]);
      // Word u of piece 4 b + t lies in lane u of the four: they exchange, so that each stores whole pieces.
#pragma unroll
    for (int b = 0; b < kChunkPairs / 4; ++b) {
      const uint32_t own[4] = {pairs[4 * b], pairs[4 * b + 1], pairs[4 * b + 2], pairs[4 * b + 3]};
      uint32_t piece[4] = {};
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const int other = t ^ step;
        const uint32_t sent = other == 0 ? own[0] : other == 1 ? own[1] : other == 2 ? own[2] : own[3];
        const uint32_t got = step == 0 ? sent : __shfl_xor_sync(rows_there, sent, step);
#pragma unroll
        for (int u = 0; u < 4; ++u) piece[u] = other == u ? got : piece[u];
      }
      *reinterpret_cast<uint4*>(to + image_offset(row, 4 * b + t, 0)) =
          make_uint4(piece[0], piece[1], piece[2], piece[3]);
    }
  }
}

}  // namespace

Status sm90_list_expert_tiles(const Experts& experts, const ExpertTiles& tiles, Stream stream) {
  DI_CHECK(experts.expert_count < kThreads, "a thread for each expert and the shared one");
  const Arguments arguments{experts, tiles};
  DI_RETURN_IF_ERROR(launch(list_tiles, "sm90_list_expert_tiles", dim3(1), kThreads, 0, stream, arguments, kEarly));
  const int64_t groups = expert_most_groups(experts.x.rows, experts.expert.columns, experts.expert_count);
  return launch(gather_rows, "sm90_list_expert_tiles, rows", dim3(blocks(groups)), kWarps * 32, 0, stream, arguments,
                kEarly);
}

}  // namespace deepinfer::cuda
