// A row across the four blocks of a cluster, 256 channels a warp, which stay in registers: for few rows, whose time is
// that of one multiprocessor's instructions.  The squares of all warps go to every block.  The bits are those of
// any_hyper_connection_expand.
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/streams/expanded_streams.cuh"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/kernels/streams/sublayer_input.cuh"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kBlocks = 4;  // of a cluster
constexpr int kMostWarps = kMostRowThreads / 32;

__global__ void __launch_bounds__(kMostRowThreads / kBlocks) expand_in_cluster(const HyperConnectionExpand op) {
  __shared__ float parts[kMostWarps];
  cluster_arrive();
  const int64_t m = blockIdx.x / kBlocks, d = op.y.columns;
  const int warps = static_cast<int>((d + 255) / 256);
  const int warp = static_cast<int>(cluster_rank() * (blockDim.x / 32)) + warp_id();
  const int64_t c = (int64_t{warp} * 32 + lane_id()) * kChannels;
  const bool there = c < d;
  float norm[kChannels] = {};
  if (there && op.next.norm != nullptr) load_channels<true>(op.next.norm, c, d, norm);
  follow_previous_kernels();
  float squares = 0, x[kChannels] = {};
  if (there) {
    const Mix pre = mix_of(op.next, m);
    float copies[kHyperCopies][kChannels];
    expand_channels<true>(op, coefficients_of(op, m), m, c, copies);
    squares = collapse_channels(copies, pre, x);
  }
  squares = warp_sum(squares);
  cluster_wait();  // all blocks run: their shared memory is there
  if (lane_id() < kBlocks && warp < warps)
    store_in_cluster(cluster_address(shared_address(parts + warp), static_cast<uint32_t>(lane_id())), squares);
  cluster_sync();
  if (op.next.norm != nullptr) {
    const float r = 1.0f / sqrtf(sum_of_warps(parts, warps) / static_cast<float>(d) + op.next.eps);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) x[i] = norm[i] * (x[i] * r);
    round_channels(x);
  }
  if (there) store_channels<true>(row_of(op.next.x, m), c, d, x);
  if (op.next.quantized.data == nullptr) return;
  round_to_fp8_groups(x);
  if (there) store_channels<true>(row_of(op.next.quantized, m), c, d, x);
}

}  // namespace

bool sm90_hyper_connection_expand_takes(const HyperConnectionExpand& op) {
  constexpr int64_t kMostRows = 66;  // as many clusters as run at once, two blocks a multiprocessor
  return op.next.x.data != nullptr && op.y.rows <= kMostRows && op.y.columns <= kMostWarps * 256 &&
         in_units_of_channels(op) && in_units_of_channels(op.next);
}

Status sm90_hyper_connection_expand(const HyperConnectionExpand& op, Stream stream) {
  check_next_input(op);
  const int64_t warps = divided_up(op.y.columns, 256);
  return launch(expand_in_cluster, "sm90_hyper_connection_expand", dim3(blocks(op.y.rows * kBlocks)),
                static_cast<int>(divided_up(warps, kBlocks)) * 32, 0, stream, op,
                LaunchOptions{.cluster = kBlocks, .early = true});
}

}  // namespace deepinfer::cuda
