// Few rows: the weight is all that moves.  One block of 16 warps a multiprocessor; the warps form groups, one warp a
// part of K.  A group takes every so many'th strip of the weight, two at a time.  A warp has a ring of places in shared
// memory for its parts of strips to come: the copy engine fills them while the warp converts and multiplies, the first
// ones while the kernels in front of this one still run.  x lies in shared memory too; the two blocks of a cluster
// fetch half of it each, for both.
//
// mma.sync with the weight as its M side; on SM90 the bits are those of wgmma, whichever side the weight is on, so that
// a strip without a partner may leave the lower half empty.
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/fp8.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/dense/dense.h"
#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/launch.cuh"
#include "backends/cuda/layout/strip_order.h"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * 32;
constexpr int kRows = static_cast<int>(kDenseDecodeRows);
constexpr int kStrip = static_cast<int>(kStripRows);
constexpr int kPiece = static_cast<int>(kPieceBytes);
constexpr int kSharingRows = 3;          // from so many on it pays to fetch x for two blocks at once
constexpr int kMostPlaces = 8;           // of a warp's ring
constexpr int kMostShared = 208 * 1024;  // dynamic: what sums and barriers leave

struct Arguments {
  const uint8_t* weight;
  const uint8_t* scales;
  const uint16_t* x;
  uint16_t* y;
  float* y32;
  int64_t x_stride, y_stride;
  int rows, n, k, strips, pieces;
  int places;   // of a warp's ring
  int x_pitch;  // bytes from a row of x to the next
};

__device__ __forceinline__ uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Loops that run a few times only stay rolled: a third of the code, as fast.
template <int Parts>
__global__ void __launch_bounds__(kThreads, 1) dense_decode(const Arguments arguments) {
  constexpr int kGroups = kWarps / Parts;
  const int place_bytes = (arguments.pieces + Parts - 1) / Parts * kPiece;
  extern __shared__ __align__(128) std::byte memory[];  // [warps][places][place_bytes], then x
  __shared__ float sums[2][kWarps][2 * kStrip][kRows];
  __shared__ uint64_t arrived[kWarps][kMostPlaces], x_arrived;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int part = warp % Parts, group = warp / Parts;
  const int first_piece = part * arguments.pieces / Parts;
  const int pieces = (part + 1) * arguments.pieces / Parts - first_piece;
  const uint32_t ring = shared_address(memory) + static_cast<uint32_t>(warp * arguments.places * place_bytes);
  std::byte* const x_memory = memory + kWarps * arguments.places * place_bytes;
  const uint32_t x = shared_address(x_memory);
  // Lane l names row l % 8 of the 8 columns l / 8 of a half piece; rows that are not there reach no output.
  const uint32_t x_row = x + static_cast<uint32_t>(min(lane % 8, arguments.rows - 1) * arguments.x_pitch +
                                                   first_piece * 128 + lane / 8 * 16);

  // Strips of all groups of the grid in turn, two each while there are enough, then one where that takes fewer turns.
  const int groups = static_cast<int>(gridDim.x) * kGroups;
  const int own = group * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const int width = min(2, arguments.places);
  const int wide_turns = arguments.strips / (width * groups), left = arguments.strips - wide_turns * width * groups;
  const int last_width = left <= groups ? 1 : width;
  const int turns = wide_turns + (left > 0 ? 1 : 0);
  const auto first_of = [&](int turn) {
    return turn < wide_turns ? (turn * groups + own) * width : wide_turns * width * groups + own * last_width;
  };
  const auto strips_of_turn = [&](int turn) {
    return turn < wide_turns ? width : turn < turns ? max(0, min(last_width, arguments.strips - first_of(turn))) : 0;
  };

  // The warp's strips follow each other in the ring in the order in which it takes them.
  int asked_turn = 0, asked_second = 0, asked_place = 0;
  const auto ask = [&] {  // by one lane
    if (strips_of_turn(asked_turn) == 0) return;
    const int strip = first_of(asked_turn) + asked_second;
    const auto bytes = static_cast<uint32_t>(pieces * kPiece);
    const uint32_t barrier = shared_address(&arrived[warp][asked_place]);
    barrier_arrive_expect(barrier, bytes);
    bulk_copy_once(ring + static_cast<uint32_t>(asked_place * place_bytes),
                   arguments.weight + (static_cast<int64_t>(strip) * arguments.pieces + first_piece) * kPiece, bytes,
                   barrier);
    if (++asked_place == arguments.places) asked_place = 0;
    if (++asked_second == strips_of_turn(asked_turn)) {
      asked_second = 0;
      ++asked_turn;
    }
  };
  if (lane == 0) {
#pragma unroll 1
    for (int i = 0; i < arguments.places; ++i) barrier_init(shared_address(&arrived[warp][i]), 1);
    if (warp == 0) barrier_init(shared_address(&x_arrived), 1);
    barrier_fence_init();
#pragma unroll 1
    for (int i = 0; i < arguments.places; ++i) ask();
  }
  // Lane i: scale of the part's block i of 32 columns.
  const auto scale_of = [&](int strip) -> uint32_t {
    return lane < pieces * 2
               ? arguments.scales[(static_cast<int64_t>(strip / 4) * arguments.pieces + first_piece) * 2 + lane]
               : 0;
  };
  // Two strips of a turn lie in the same 32 rows.
  uint32_t next_scales = 0;
  const auto fetch_scales = [&](int turn) {
    if (strips_of_turn(turn) > 0) next_scales = scale_of(first_of(turn));
  };
  fetch_scales(0);
  allow_next_kernel();
  // What lies behind the end of K is multiplied by zero weights.
#pragma unroll 1
  for (int row = 0; row < arguments.rows; ++row)
#pragma unroll 1
    for (int i = arguments.k + static_cast<int>(threadIdx.x); i < arguments.pieces * 64; i += kThreads)
      *reinterpret_cast<uint16_t*>(x_memory + row * arguments.x_pitch + i * 2) = 0;
  // The barrier for x is there, in the other block too.
  if (cluster_blocks() > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  wait_for_previous_kernels();
  if (threadIdx.x == 0) {
    const bool alone = cluster_blocks() == 1;
    barrier_arrive_expect(shared_address(&x_arrived), static_cast<uint32_t>(arguments.rows * arguments.k * 2));
    const int middle = alone ? 0 : arguments.k / 16 * 8;
    const int first = cluster_rank() == 0 ? middle : 0, end = cluster_rank() == 0 ? arguments.k : middle;
#pragma unroll 1
    for (int row = 0; row < arguments.rows; ++row)
      bulk_copy_to_cluster(x + static_cast<uint32_t>(row * arguments.x_pitch + first * 2),
                           arguments.x + row * arguments.x_stride + first, static_cast<uint32_t>((end - first) * 2),
                           shared_address(&x_arrived), alone ? 0b01 : 0b11);
  }
  barrier_wait(shared_address(&x_arrived), 0);
  __syncthreads();

  int place = 0;
  uint32_t parity = 0;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    const int count = strips_of_turn(turn), strip = first_of(turn);
    if (count > 0) {
      const uint32_t scales = next_scales;
      fetch_scales(turn + 1);
      float d[4] = {};
      const uint4* weight[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        weight[i] = reinterpret_cast<const uint4*>(memory + (warp * arguments.places + place) * place_bytes) + lane;
        if (i < count) {
          barrier_wait(shared_address(&arrived[warp][place]), parity);
          if (++place == arguments.places) {
            place = 0;
            parity ^= 1;
          }
        }
      }
#pragma unroll 2
      for (int p = 0; p < pieces; ++p) {
        const uint4 weights[2] = {weight[0][p * 32], count == 2 ? weight[1][p * 32] : uint4{}};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t scale = e8m0_as_bf16_pair(__shfl_sync(~0u, scales, p * 2 + half));
          uint32_t b[4];
          load_matrices(b, x_row + static_cast<uint32_t>(p * 128 + half * 64));
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            const uint32_t w0 = word_of(weights[0], half * 2 + step), w1 = word_of(weights[1], half * 2 + step);
            const uint32_t a[4] = {times(first_e4m3_as_bf16(w0), scale), times(first_e4m3_as_bf16(w1), scale),
                                   times(second_e4m3_as_bf16(w0), scale), times(second_e4m3_as_bf16(w1), scale)};
            mma_bf16(d, a, b[step * 2], b[step * 2 + 1]);
          }
        }
      }
      __syncwarp();  // the places have been read
      if (lane == 0) {
        fence_async_proxy();
#pragma unroll 1
        for (int i = 0; i < count; ++i) ask();
      }
#pragma unroll
      for (int s = 0; s < 2; ++s)
        *reinterpret_cast<float2*>(&sums[turn % 2][warp][lane / 4 + s * kStrip][2 * (lane % 4)]) =
            make_float2(d[2 * s], d[2 * s + 1]);
    }
    // Whoever adds the parts of this turn has read them before the barrier of the next, and only behind that one are
    // they written again.
    __syncthreads();
#pragma unroll 1
    for (int i = part * 32 + lane; i < count * kStrip * arguments.rows; i += Parts * 32) {
      const int row = count == 2 ? i / (2 * kStrip) : i / kStrip, at_strip = i - row * count * kStrip;
      const int output = strip * kStrip + at_strip;
      if (output >= arguments.n) continue;
      float parts[Parts];
#pragma unroll
      for (int p = 0; p < Parts; ++p) parts[p] = sums[turn % 2][group * Parts + p][at_strip][row];
      float sum = parts[0];
#pragma unroll
      for (int p = 1; p < Parts; ++p) sum += parts[p];
      const int64_t at = row * arguments.y_stride + output;
      if (arguments.y32 != nullptr) {
        arguments.y32[at] = sum;
      } else {
        arguments.y[at] = __bfloat16_as_ushort(__float2bfloat16_rn(sum));
      }
    }
  }
}

template <int Parts>
Status launch_parts(Arguments arguments, int multiprocessors, Stream stream) {
  const int round = kWarps * ((arguments.pieces + Parts - 1) / Parts) * kPiece;  // bytes of a place of all warps
  arguments.x_pitch = arguments.pieces * 128 + 16;
  const int x_bytes = arguments.rows * arguments.x_pitch;
  arguments.places = std::min(kMostPlaces, (kMostShared - x_bytes) / round);
  DI_CHECK(arguments.places > 0, "x leaves room for the ring");
  const dim3 grid(static_cast<unsigned>(std::min((arguments.strips + 1) / 2, multiprocessors / 2) * 2));
  return launch(dense_decode<Parts>, "sm90_dense_decode", grid, kThreads, arguments.places * round + x_bytes, stream,
                arguments, {.cluster = arguments.rows >= kSharingRows ? 2u : 1u, .early = true});
}

}  // namespace

Status sm90_dense_decode(const DenseProduct& product, Stream stream) {
  const DenseWeight& weight = product.weight;
  DI_CHECK(product.rows <= kDenseDecodeRows && weight.k <= kDenseDecodeColumns, "a product that this kernel takes");
  if (product.rows == 0) return {};
  int device = 0, multiprocessors = 0;
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "sm90_dense_decode"));
  DI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                                 "sm90_dense_decode"));
  const auto pieces = static_cast<int>(pieces_of(weight.k));
  const Arguments arguments{.weight = weight.data,
                            .scales = weight.scales,
                            .x = reinterpret_cast<const uint16_t*>(product.x),
                            .y = reinterpret_cast<uint16_t*>(product.y),
                            .y32 = product.y32,
                            .x_stride = product.x_stride,
                            .y_stride = product.y_stride,
                            .rows = static_cast<int>(product.rows),
                            .n = static_cast<int>(weight.n),
                            .k = static_cast<int>(weight.k),
                            .strips = static_cast<int>(strips_of(weight.n)),
                            .pieces = pieces,
                            .places = 0,
                            .x_pitch = 0};
  switch (dense_parts(pieces)) {
    case 1:
      return launch_parts<1>(arguments, multiprocessors, stream);
    case 2:
      return launch_parts<2>(arguments, multiprocessors, stream);
    case 4:
      return launch_parts<4>(arguments, multiprocessors, stream);
    case 8:
      return launch_parts<8>(arguments, multiprocessors, stream);
    default:
      return launch_parts<16>(arguments, multiprocessors, stream);
  }
}

}  // namespace deepinfer::cuda
