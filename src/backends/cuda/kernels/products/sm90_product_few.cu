// Few rows: the weight is all that moves.  A warp takes one part of K of every so many'th tile of 16 outputs.  Each lane
// has a ring of its own in shared memory for the pieces to come, across tiles, and takes them from there into the
// operands of mma.sync.  The parts of K lie in the blocks of a cluster, so that a block keeps only its columns of x in
// shared memory.  A step of a cluster is the tiles that its warps take at once; the sums of its parts go to the block
// that owns an output and are added there a step later.
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/products/sm90_pieces.cuh"
#include "backends/cuda/kernels/products/sm90_product_places.h"
#include "backends/cuda/kernels/products/sm90_products.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * 32;
constexpr int kOutputs = 16;             // of a tile
constexpr int kPieceColumns = static_cast<int>(kProductPiece);
constexpr int kMostBlocks = 8;           // of a cluster
constexpr int kMostShared = 220 * 1024;  // dynamic
constexpr int kGoodX = 68 * 1024;        // of x: every block fetches its own

struct Arguments : ProductPlaces {
  int block_parts;  // parts of a block
  int tiles;     // of a step
  int steps;     // of a group
  int segments;  // that a part is taken in
  int own_bits;  // a block owns 2^own_bits outputs of a step
  int x_pitch;   // bytes from a row of x to the next in shared memory
};

template <Format kFormat, int kRowTiles, int kSegment>
__global__ void __launch_bounds__(kThreads, 1) product_few(const Arguments arguments) {
  constexpr int kRows = 8 * kRowTiles;
  constexpr int kColumnBytes = Piece<kFormat>::kColumnBytes, kPieceBytes = kPieceColumns * kColumnBytes;
  constexpr int kRingBytes = kWarps * kSegment * Piece<kFormat>::kWarpBytes;
  extern __shared__ __align__(128) std::byte memory[];  // rings, then x, then sums [2][parts][kRows][own + 1]
  __shared__ uint64_t full[2], empty[2];  // of the sums of a turn: all are there; all have been added
  std::byte* const x_memory = memory + kRingBytes;
  const int warp = warp_id(), lane = lane_id();
  const auto rank = static_cast<int>(cluster_rank()), cluster = static_cast<int>(cluster_blocks());
  const int first_step = static_cast<int>(blockIdx.x) / cluster, clusters = static_cast<int>(gridDim.x) / cluster;
  const int group = static_cast<int>(blockIdx.y);
  const int part = rank * arguments.block_parts + warp % arguments.block_parts, tile = warp / arguments.block_parts;
  const auto piece_of_part = [&](int p) { return p * arguments.pieces >> arguments.part_bits; };
  const int first_piece = piece_of_part(part), pieces = piece_of_part(part + 1) - first_piece;
  const int block_first = piece_of_part(rank * arguments.block_parts);
  const int block_pieces = piece_of_part((rank + 1) * arguments.block_parts) - block_first;

  const int own = 1 << arguments.own_bits;
  const int readers = min(kWarps, ((arguments.rows << arguments.own_bits) + 31) / 32);  // warps that add
  const auto turn_bytes = static_cast<uint32_t>(arguments.parts * kRows * own * 4);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      barrier_init(shared_address(&full[i]), cluster > 1 ? 1 : kWarps);
      barrier_init(shared_address(&empty[i]), static_cast<uint32_t>(cluster * readers));
    }
    barrier_fence_init();
    if (cluster > 1) {
#pragma unroll
      for (int i = 0; i < 2; ++i) barrier_arrive_expect(shared_address(&full[i]), turn_bytes);
    }
  }
  __syncthreads();
  if (cluster > 1) cluster_arrive_for_barriers();

  const uint8_t* const weight = arguments.weight + int64_t{group} * arguments.n * arguments.k * kColumnBytes;
  const int step_outputs = arguments.tiles * kOutputs;
  // A part is taken in segments of at most kSegment pieces, piece i of each through place i of the ring.  The segment to
  // ask for next:
  const int column = first_piece * kPieceColumns + lane % 4 * 16;
  const uint32_t ring = kept(shared_address(memory) + place_in_warp<kFormat>() +
                             static_cast<uint32_t>(warp * kSegment * Piece<kFormat>::kWarpBytes));
  const auto first_of = [&](int segment) { return segment * pieces / arguments.segments; };
  int next_step = first_step, next_segment = 0, next_count = 0;
  const uint8_t *low = nullptr, *high = nullptr;
  const auto start_segment = [&] {
    const int first = first_of(next_segment);
    next_count = next_step < arguments.steps ? first_of(next_segment + 1) - first : 0;
    const int output = next_step * step_outputs + tile * kOutputs + lane / 4;
    const int64_t at = column + first * kPieceColumns;
    low = weight + (int64_t{min(output, arguments.n - 1)} * arguments.k + at) * kColumnBytes;
    high = weight + (int64_t{min(output + 8, arguments.n - 1)} * arguments.k + at) * kColumnBytes;
    low = kept(low);
    high = kept(high);
  };
  const auto ask = [&](int i) {
    if (i < next_count)
      ask_for_piece<kFormat>(ring + i * Piece<kFormat>::kWarpBytes, low + i * kPieceBytes, high + i * kPieceBytes);
    async_copies_commit();
  };
  start_segment();
#pragma unroll
  for (int i = 0; i < kSegment; ++i) ask(i);
  // Lane i: scale of the part's block i of 32 columns.
  const auto scale_of = [&](int step) -> uint32_t {
    if (kFormat != Format::kFp8 || first_piece * 2 + lane >= arguments.k / 32 || step >= arguments.steps) return 0;
    const int output = min(step * step_outputs + tile * kOutputs, arguments.n - 1);
    return arguments.scales[int64_t{(group * arguments.n + output) / 32} * (arguments.k / 32) + first_piece * 2 + lane];
  };
  uint32_t next_scales = scale_of(first_step);

  allow_next_kernel();
  wait_for_previous_kernels();
  {
    const int chunks = block_pieces * 8;  // of 8 columns
    const uint16_t* const x = arguments.x + int64_t{group} * arguments.k + block_first * kPieceColumns;
    const int there = (arguments.k - block_first * kPieceColumns) / 8;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < arguments.rows * chunks; i += kThreads) {
      const int row = i / chunks, chunk = i - row * chunks;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (chunk < there) v = *reinterpret_cast<const uint4*>(x + row * arguments.x_stride + chunk * 8);
      *reinterpret_cast<uint4*>(x_memory + row * arguments.x_pitch + chunk * 16) = paired<kFormat>(v);
    }
  }
  // Rows that are not there reach no output.
  uint32_t x_rows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
    x_rows[i] = shared_address(x_memory) +
                static_cast<uint32_t>(min(8 * i + lane / 4, arguments.rows - 1) * arguments.x_pitch +
                                      (first_piece - block_first) * 128 + lane % 4 * 32);
  auto* const sums = reinterpret_cast<float*>(x_memory + arguments.rows * arguments.x_pitch);
  const int sums_row = own + 1, sums_part = kRows * sums_row;
  // Of a turn, the number of a step of this cluster.  Whatever reaches a block from another is awaited there, so that
  // a block may end on its own.
  const int turns = (arguments.steps - 1 - first_step) / clusters + 1;
  const auto add_parts = [&](int turn) {
    const int first = (warp + turn) % kWarps * 32 + lane, side = turn % 2;  // no warp adds in every turn where few do
    if (first - lane >= readers * 32) return;
    barrier_wait(shared_address(&full[side]), static_cast<uint32_t>(turn / 2 % 2));
    if (cluster > 1 && first == 0) barrier_arrive_expect(shared_address(&full[side]), turn_bytes);
    const float* const from = sums + side * arguments.parts * sums_part;
    for (int i = first; i < arguments.rows << arguments.own_bits; i += kThreads) {
      const int row = i >> arguments.own_bits, at = i & (own - 1);
      const float* p = from + row * sums_row + at;
      float sum = p[0];
#pragma unroll 4
      for (int j = 1; j < arguments.parts; ++j) sum += p[j * sums_part];
      const int output = (first_step + turn * clusters) * step_outputs + (rank << arguments.own_bits) + at;
      if (output >= arguments.n) continue;
      const int64_t to = row * arguments.y_stride + int64_t{group} * arguments.n + output;
      if (arguments.y32 != nullptr) {
        arguments.y32[to] = sum;
      } else {
        arguments.y[to] = __bfloat16_as_ushort(__float2bfloat16_rn(sum));
      }
    }
    __syncwarp();
    if (turn + 2 < turns) {
      if (cluster == 1) {
        if (lane == 0) barrier_arrive(shared_address(&empty[side]));
      } else if (lane < cluster) {
        arrive_in_cluster(cluster_address(shared_address(&empty[side]), static_cast<uint32_t>(lane)));
      }
    }
  };
  // Where the lane's sums of a turn go: outputs lane / 4 and 8 further of the tile, rows 2 (lane % 4) and the next.
  uint32_t sums_of[2], full_of[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = tile * kOutputs + lane / 4 + 8 * half;
    const auto owner = static_cast<uint32_t>(at >> arguments.own_bits);
    const float* const to = sums + part * sums_part + 2 * (lane % 4) * sums_row + (at & (own - 1));
    sums_of[half] = shared_address(to);
    if (cluster > 1) {
      sums_of[half] = cluster_address(sums_of[half], owner);
      full_of[half] = cluster_address(shared_address(full), owner);
    }
  }
  if (cluster > 1) cluster_wait_for_barriers();  // the barriers of the cluster's blocks are there
  __syncthreads();                               // x too

  float d[kRowTiles][4] = {};
  int turn = 0;
#pragma unroll 1
  for (int step = first_step; step < arguments.steps; step += clusters) {
    const Scales scales = scales_of_codes(next_scales);
    next_scales = scale_of(step + clusters);
#pragma unroll 1
    for (int segment = 0; segment < arguments.segments; ++segment) {
      const int first = first_of(segment), count = first_of(segment + 1) - first;
      if (++next_segment == arguments.segments) {
        next_segment = 0;
        next_step += clusters;
      }
      start_segment();
#pragma unroll
      for (int i = 0; i < kSegment; ++i) {
        if (i < count) {
          async_copies_wait<kSegment - 1>();
          Piece<kFormat> weights;
          get_piece(weights, ring + i * Piece<kFormat>::kWarpBytes);
          uint4 x[kRowTiles][2];
#pragma unroll
          for (int j = 0; j < kRowTiles; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) x[j][h] = load_shared(x_rows[j] + (first + i) * 128 + h * 16);
          uint32_t a[4][4];
          fragments(a, weights, scales, first + i);
          ask(i);
#pragma unroll
          for (int j = 0; j < kRowTiles; ++j) {
            mma_bf16(d[j], a[0], x[j][0].x, x[j][0].y);
            mma_bf16(d[j], a[1], x[j][0].z, x[j][0].w);
            mma_bf16(d[j], a[2], x[j][1].x, x[j][1].y);
            mma_bf16(d[j], a[3], x[j][1].z, x[j][1].w);
          }
        } else {
          ask(i);
        }
      }
    }
    const int side = turn % 2;
    if (turn >= 2) barrier_wait(shared_address(&empty[side]), static_cast<uint32_t>(turn / 2 - 1) % 2);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < kRowTiles; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint32_t to =
              sums_of[half] + static_cast<uint32_t>(4 * (side * arguments.parts * sums_part + (8 * j + r) * sums_row));
          if (cluster == 1) {
            store_shared(to, d[j][2 * half + r]);
          } else {
            store_in_cluster(to, d[j][2 * half + r], full_of[half] + static_cast<uint32_t>(8 * side));
          }
          d[j][2 * half + r] = 0;
        }
    if (cluster == 1) {
      __syncwarp();
      if (lane == 0) barrier_arrive(shared_address(&full[side]));
    }
    if (turn > 0) add_parts(turn - 1);
    ++turn;
  }
  add_parts(turn - 1);
}

// The split of K over a cluster of so many blocks; shared memory that it takes beside the rings.
int split(Arguments& arguments, int row_tiles, int cluster) {
  arguments.block_parts = arguments.parts / cluster;
  arguments.tiles = kWarps / arguments.block_parts;
  const int block_pieces = (arguments.pieces + cluster - 1) / cluster + (arguments.pieces % cluster != 0 ? 1 : 0);
  arguments.x_pitch = block_pieces * 128 + 16;
  const int own = arguments.tiles * kOutputs / cluster;
  arguments.own_bits = std::countr_zero(static_cast<unsigned>(own));
  return arguments.rows * arguments.x_pitch + 2 * arguments.parts * 8 * row_tiles * (own + 1) * 4;
}

// The fewest blocks that leave room for a next kernel's loads, or at least fit; 0 where nothing does.
int cluster_of(Arguments& arguments, int row_tiles, int ring_bytes) {
  const int least = std::max(1, arguments.parts / kWarps), most = std::min(arguments.parts, kMostBlocks);
  for (const int x_bytes : {kGoodX, kMostShared})
    for (int cluster = least; cluster <= most; cluster *= 2)
      if (ring_bytes + split(arguments, row_tiles, cluster) <= kMostShared &&
          arguments.rows * arguments.x_pitch <= x_bytes)
        return cluster;
  return 0;
}

template <Format kFormat>
constexpr int ring_bytes(int segment) {
  return kWarps * segment * Piece<kFormat>::kWarpBytes;
}

template <Format kFormat, int kRowTiles, int kSegment>
Status launch_kernel(Arguments arguments, int groups, Stream stream) {
  constexpr const char* kName = "sm90_product_few";
  DI_ASSIGN_OR_RETURN(int multiprocessors, multiprocessor_count());
  const int cluster = cluster_of(arguments, kRowTiles, ring_bytes<kFormat>(kSegment));
  DI_CHECK(cluster > 0, "a product that this kernel takes");
  const int shared = ring_bytes<kFormat>(kSegment) + split(arguments, kRowTiles, cluster);
  const int part_pieces = (arguments.pieces + arguments.parts - 1) / arguments.parts;
  arguments.segments = (part_pieces + kSegment - 1) / kSegment;
  arguments.steps = static_cast<int>(divided_up(arguments.n, arguments.tiles * kOutputs));
  // Larger clusters find room in groups of 16 multiprocessors.
  if (cluster > 2) multiprocessors = multiprocessors / 16 * 16;
  const int clusters = std::clamp(multiprocessors / groups / cluster, 1, arguments.steps);
  const auto kernel = product_few<kFormat, kRowTiles, kSegment>;
  return launch(kernel, kName, dim3(blocks(clusters * cluster), blocks(groups)), kThreads, shared, stream, arguments,
                {.cluster = static_cast<unsigned>(cluster), .early = true});
}

int row_tiles_of(int64_t rows) {
  return rows <= 8 ? 1 : rows <= 16 ? 2 : 4;
}

template <Format kFormat, int kSegment>
Status launch_rows(const Arguments& arguments, int groups, Stream stream) {
  switch (row_tiles_of(arguments.rows)) {
    case 1:
      return launch_kernel<kFormat, 1, kSegment>(arguments, groups, stream);
    case 2:
      return launch_kernel<kFormat, 2, kSegment>(arguments, groups, stream);
    default:
      return launch_kernel<kFormat, 4, kSegment>(arguments, groups, stream);
  }
}

Arguments arguments_of(const Product& product) {
  return {places_of(product)};
}

constexpr int kSegmentFp8 = 5, kSegmentBf16 = 3;

}  // namespace

bool sm90_few_takes(const Product& product) {
  Arguments arguments = arguments_of(product);
  const int ring = product.weight.format == Format::kFp8 ? ring_bytes<Format::kFp8>(kSegmentFp8)
                                                         : ring_bytes<Format::kBf16>(kSegmentBf16);
  return product.x.rows <= kSm90FewRows &&
         cluster_of(arguments, row_tiles_of(product.x.rows), ring) > 0;
}

Status sm90_product_few(const Product& product, Stream stream) {
  if (product.x.rows == 0) return {};
  const Arguments arguments = arguments_of(product);
  if (product.weight.format == Format::kFp8)
    return launch_rows<Format::kFp8, kSegmentFp8>(arguments, product.groups, stream);
  return launch_rows<Format::kBf16, kSegmentBf16>(arguments, product.groups, stream);
}

}  // namespace deepinfer::cuda
