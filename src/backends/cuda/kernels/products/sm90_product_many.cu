// Many rows: blocks of three warpgroups go through tiles of 128 outputs.  Two multiply 64 outputs each: a lane has a ring
// of its own in shared memory for the weights to come, as they are stored, and makes of them the register operand of
// wgmma; the accumulators begin anew with every part of K and are added to the sums at its end.  The third brings rows
// of x into a ring that the two share, in the order of columns that the weights' lanes have.
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/warpgroup.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/kernels/products/sm90_pieces.cuh"
#include "backends/cuda/kernels/products/sm90_product_places.h"
#include "backends/cuda/kernels/products/sm90_products.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kMultipliers = 256, kThreads = kMultipliers + 128;
constexpr int kOutputs = 128;  // of a tile
constexpr int kPieceColumns = static_cast<int>(kProductPiece);
constexpr int kRowBytes = kPieceColumns * 2;  // of a piece of a row of x
constexpr int kWeightPlaces = 5;
constexpr int kBand = 16;  // tiles of rows that meet the same weights one after the other

struct Arguments : ProductPlaces {
  int output_tiles, row_tiles, tiles;  // tiles: of all groups
  bool whole_chunks;                   // 8 neighbouring outputs of y are one aligned store
};

struct Tile {
  int group, output, row;
};

template <int kTokens>
__device__ __forceinline__ Tile tile_at(const Arguments& arguments, int index) {
  const int of_group = arguments.output_tiles * arguments.row_tiles;
  const int group = index / of_group, in_group = index - group * of_group;
  const int band = in_group / (kBand * arguments.output_tiles), in_band = in_group - band * kBand * arguments.output_tiles;
  const int width = min(kBand, arguments.row_tiles - band * kBand);
  return {group, in_band / width * kOutputs, (band * kBand + in_band % width) * kTokens};
}

// Places of the ring of rows.
template <Format kFormat>
constexpr int kStages = kFormat == Format::kFp8 ? 8 : 6;
constexpr int kMostStages = 8;

template <int kStages>
struct Turn {
  int place = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void next() {
    if (++place == kStages) {
      place = 0;
      parity ^= 1;
    }
  }
};

struct Barriers {
  uint64_t full[kMostStages], empty[kMostStages];
};

// The pieces of x of the block's tiles, one after the other; each of the four warps brings every fourth piece, half of
// its rows at a time.
template <Format kFormat, int kTokens>
__device__ __forceinline__ void bring_rows(const Arguments& arguments, uint32_t ring, Barriers& barriers) {
  constexpr int kGroups = kTokens / 16;  // of 8 rows, of a half
  const int lane = lane_id(), warp = warp_id() % 4;
  const int tiles = (arguments.tiles - 1 - static_cast<int>(blockIdx.x)) / static_cast<int>(gridDim.x) + 1;
  const int count = tiles * arguments.pieces;
  const uint32_t at = ring + static_cast<uint32_t>(lane % 8 * kRowBytes);
  const uint32_t chunks[2] = {static_cast<uint32_t>((lane / 8) ^ (lane % 8)) * 16,
                              static_cast<uint32_t>((lane / 8 + 4) ^ (lane % 8)) * 16};
  int index = static_cast<int>(blockIdx.x), piece = warp;
  Turn<kStages<kFormat>> turn;
  for (int i = 0; i < warp; ++i) turn.next();
  Tile tile = tile_at<kTokens>(arguments, index);
#pragma unroll 1
  for (int i = warp; i < count; i += 4) {
    if (piece >= arguments.pieces) {
      do {
        piece -= arguments.pieces;
        index += static_cast<int>(gridDim.x);
      } while (piece >= arguments.pieces);
      tile = tile_at<kTokens>(arguments, index);
    }
    const int column = piece * kPieceColumns + lane % 4 * 16;
    const uint16_t* const x = arguments.x + int64_t{tile.group} * arguments.k + column;
    const uint32_t to = at + static_cast<uint32_t>(turn.place * kTokens * kRowBytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4 v[kGroups][2];
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const int row = min(tile.row + (half * kGroups + g) * 8 + lane / 4, arguments.rows - 1);
        const auto* const from = reinterpret_cast<const uint4*>(x + row * arguments.x_stride);
#pragma unroll
        for (int j = 0; j < 2; ++j) v[g][j] = from[j];
      }
      if (half == 0) barrier_wait(shared_address(&barriers.empty[turn.place]), turn.parity ^ 1);
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const uint4 pairs = paired<kFormat>(v[g][j]);
          store_matrices(to + static_cast<uint32_t>((half * kGroups + g) * 8 * kRowBytes) + chunks[j], pairs.x, pairs.y,
                         pairs.z, pairs.w);
        }
    }
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared_address(&barriers.full[turn.place]));
#pragma unroll
    for (int j = 0; j < 4; ++j) turn.next();
    piece += 4;
  }
}

// Writes the sums of a warpgroup's 64 outputs by kTokens rows.  staging: kTokens rows of 128 bytes, of the warpgroup.
template <int kTokens>
__device__ __forceinline__ void write_sums(const Arguments& arguments, const float (&sums)[kTokens / 2],
                                           const Tile& tile, int warpgroup, std::byte* staging) {
  const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
  const int first = tile.output + warpgroup * 64;  // output of the group
  const int64_t column = int64_t{tile.group} * arguments.n;
  if (arguments.y32 != nullptr) {
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int output = first + warp * 16 + lane / 4 + i / 2 * 8, row = tile.row + 8 * j + 2 * (lane % 4) + i % 2;
        if (output < arguments.n && row < arguments.rows)
          arguments.y32[row * arguments.y_stride + column + output] = sums[4 * j + i];
      }
    return;
  }
  warpgroup_sync(warpgroup);  // what the tile before left there has been read
  const uint32_t to = shared_address(staging) + static_cast<uint32_t>((lane / 16 * 8 + lane % 8) * 128 +
                                                                      ((warp * 2 + lane / 8 % 2) ^ (lane % 8)) * 16);
#pragma unroll
  for (int j = 0; j < kTokens / 8; j += 2) {
    uint32_t pairs[4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(sums[4 * (j + m / 2) + 2 * (m % 2)],
                                                        sums[4 * (j + m / 2) + 2 * (m % 2) + 1]);
      pairs[m] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    store_matrices_transposed(to + static_cast<uint32_t>(j * 8 * 128), pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  warpgroup_sync(warpgroup);
  const int chunk = thread % 8, output = first + chunk * 8;
#pragma unroll 4
  for (int i = 0; i < kTokens / 16; ++i) {
    const int token = i * 16 + thread / 8, row = tile.row + token;
    if (row >= arguments.rows || output >= arguments.n) continue;
    const uint4 v = *reinterpret_cast<const uint4*>(staging + token * 128 + (chunk ^ (token % 8)) * 16);
    uint16_t* const y = arguments.y + row * arguments.y_stride + column + output;
    if (arguments.whole_chunks) {
      *reinterpret_cast<uint4*>(y) = v;
    } else {
      for (int e = 0; e < min(8, arguments.n - output); ++e) {
        const uint32_t word = e < 2 ? v.x : e < 4 ? v.y : e < 6 ? v.z : v.w;
        y[e] = static_cast<uint16_t>(e % 2 == 0 ? word : word >> 16);
      }
    }
  }
}

template <Format kFormat, int kTokens>
__device__ __forceinline__ void multiply(const Arguments& arguments, uint32_t ring, uint32_t rings,
                                         Barriers& barriers, std::byte* staging) {
  constexpr int kColumnBytes = kFormat == Format::kFp8 ? 1 : 2;
  const int lane = lane_id(), warpgroup = warp_id() / 4;
  // The weights to ask for next.
  const uint32_t weight_ring =
      kept(rings + place_in_warp<kFormat>() +
           static_cast<uint32_t>(warp_id() * kWeightPlaces * Piece<kFormat>::kWarpBytes));
  int next_index = static_cast<int>(blockIdx.x), next_piece = 0;
  const uint8_t *low = nullptr, *high = nullptr;
  const auto start_tile = [&] {
    if (next_index >= arguments.tiles) return;
    const Tile tile = tile_at<kTokens>(arguments, next_index);
    const int output = tile.output + warp_id() * 16 + lane / 4, first = tile.group * arguments.n;
    low = arguments.weight +
          (int64_t{first + min(output, arguments.n - 1)} * arguments.k + lane % 4 * 16) * kColumnBytes;
    high = arguments.weight +
           (int64_t{first + min(output + 8, arguments.n - 1)} * arguments.k + lane % 4 * 16) * kColumnBytes;
    low = kept(low);
    high = kept(high);
  };
  const auto ask = [&](uint32_t place) {
    if (next_index < arguments.tiles) {
      ask_for_piece<kFormat>(place, low, high);
      low += kPieceColumns * kColumnBytes;
      high += kPieceColumns * kColumnBytes;
      if (++next_piece == arguments.pieces) {
        next_piece = 0;
        next_index += static_cast<int>(gridDim.x);
        start_tile();
      }
    }
    async_copies_commit();
  };
  start_tile();
#pragma unroll
  for (int i = 0; i < kWeightPlaces; ++i) ask(weight_ring + i * Piece<kFormat>::kWarpBytes);
  // Lane i: scale of the part's block i of 32 columns.
  const auto part_first = [&](int part) { return part * arguments.pieces >> arguments.part_bits; };
  const auto codes_of = [&](int index, int part) -> uint32_t {
    if (kFormat != Format::kFp8 || index >= arguments.tiles || lane >= 2 * (part_first(part + 1) - part_first(part)))
      return 0;
    const Tile tile = tile_at<kTokens>(arguments, index);
    const int row = tile.group * arguments.n + min(tile.output + warp_id() * 16, arguments.n - 1);
    return arguments.scales[int64_t{row / 32} * (arguments.k / 32) + part_first(part) * 2 + lane];
  };
  uint32_t next_codes = codes_of(static_cast<int>(blockIdx.x), 0);
  allow_next_kernel();
  wait_for_previous_kernels();

  // The operands of the next piece, made while the products of the one before run.
  int made_index = static_cast<int>(blockIdx.x), made_part = 0, made_piece = 0, made_count = 0;
  Scales scales;
  const auto start_part = [&] {
    made_piece = 0;
    made_count = part_first(made_part + 1) - part_first(made_part);
    scales = scales_of_codes(next_codes);
    if (++made_part == arguments.parts) {
      made_part = 0;
      made_index += static_cast<int>(gridDim.x);
    }
    next_codes = codes_of(made_index, made_part);
  };
  start_part();
  uint32_t weight_place = weight_ring;
  const uint32_t weight_end = kept(weight_ring + kWeightPlaces * Piece<kFormat>::kWarpBytes);
  uint32_t next[4][4];
  const auto make_next = [&] {
    async_copies_wait<kWeightPlaces - 1>();
    Piece<kFormat> weights;
    get_piece(weights, weight_place);
    fragments(next, weights, scales, made_piece);
    ask(weight_place);
    weight_place += Piece<kFormat>::kWarpBytes;
    if (weight_place == weight_end) weight_place = weight_ring;
    if (++made_piece == made_count) start_part();
  };
  // Registers that products on their way read must not be written: the copy stays behind their end, as it is volatile.
  uint32_t operand[4][4];
  const auto take_next = [&] {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      asm volatile("mov.b32 %0, %1;\n" : "=r"(operand[i / 4][i % 4]) : "r"(next[i / 4][i % 4]));
  };
  make_next();
  take_next();

  float d[kTokens / 2], sums[kTokens / 2];
  Turn<kStages<kFormat>> turn;
  const bool leader = kept(static_cast<uint32_t>(lane)) == 0;
  const uint32_t full = kept(shared_address(barriers.full)), empty = kept(shared_address(barriers.empty));
  const uint64_t first_rows = swizzled_descriptor(ring);
#pragma unroll 1
  for (int index = static_cast<int>(blockIdx.x); index < arguments.tiles; index += static_cast<int>(gridDim.x)) {
    int part_end = 0;
#pragma unroll 1
    for (int part = 0; part < arguments.parts; ++part) {
      const int first = part_end;
      part_end = part_first(part + 1);
#pragma unroll 1
      for (int piece = first; piece < part_end; ++piece) {
        barrier_wait(full + static_cast<uint32_t>(turn.place) * 8, turn.parity);
        const uint64_t rows = first_rows + static_cast<uint32_t>(turn.place) * (kTokens * kRowBytes / 16);
        wgmma_fence();
#pragma unroll
        for (int s = 0; s < 4; ++s)
          WgmmaBf16<kTokens>::multiply_registers(d, operand[s], rows + 2 * s, s > 0 || piece > first);  // 32 bytes further
        wgmma_commit();
        make_next();
        wgmma_wait<0>();
        take_next();
        __syncwarp();
        if (leader) barrier_arrive(empty + static_cast<uint32_t>(turn.place) * 8);
        turn.next();
      }
      if (part == 0) {
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) sums[i] = d[i];
      } else {
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) sums[i] += d[i];
      }
    }
    write_sums<kTokens>(arguments, sums, tile_at<kTokens>(arguments, index), warpgroup,
                        staging + warpgroup * kTokens * 128);
  }
}

template <Format kFormat, int kTokens>
__global__ void __launch_bounds__(kThreads, 1) product_many(const Arguments arguments) {
  extern __shared__ __align__(1024) std::byte memory[];  // the rows' ring, the weights' rings, what is written
  constexpr int kRing = kStages<kFormat> * kTokens * kRowBytes;
  constexpr int kRings = kMultipliers / 32 * kWeightPlaces * Piece<kFormat>::kWarpBytes;
  __shared__ Barriers barriers;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages<kFormat>; ++i) {
      barrier_init(shared_address(&barriers.full[i]), 1);
      barrier_init(shared_address(&barriers.empty[i]), kMultipliers / 32);
    }
    barrier_fence_init();
  }
  __syncthreads();
  const uint32_t ring = shared_address(memory);
  if (threadIdx.x >= kMultipliers) {
    take_registers_down<104>();
    wait_for_previous_kernels();
    bring_rows<kFormat, kTokens>(arguments, ring, barriers);
  } else {
    take_registers_up<200>();
    multiply<kFormat, kTokens>(arguments, ring, ring + kRing, barriers, memory + kRing + kRings);
  }
}

template <Format kFormat, int kTokens>
Status launch_kernel(Arguments arguments, int groups, int multiprocessors, Stream stream) {
  constexpr const char* kName = "sm90_product_many";
  constexpr int kShared = (kStages<kFormat> + 2) * kTokens * kRowBytes +
                          kMultipliers / 32 * kWeightPlaces * Piece<kFormat>::kWarpBytes;
  arguments.output_tiles = static_cast<int>(divided_up(arguments.n, kOutputs));
  arguments.row_tiles = static_cast<int>(divided_up(arguments.rows, kTokens));
  arguments.tiles = groups * arguments.output_tiles * arguments.row_tiles;
  const auto kernel = product_many<kFormat, kTokens>;
  return launch(kernel, kName, dim3(blocks(std::min(arguments.tiles, multiprocessors))), kThreads, kShared, stream,
                arguments, kEarly);
}

template <Format kFormat>
Status launch_rows(const Arguments& arguments, int groups, Stream stream) {
  DI_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  // Tiles of 64 rows take 0.7 times as long as those of 128.
  const int64_t output_tiles = groups * divided_up(arguments.n, kOutputs);
  const auto turns = [&](int tokens) {
    return static_cast<double>(divided_up(output_tiles * divided_up(arguments.rows, tokens), multiprocessors));
  };
  if (0.7 * turns(64) < turns(128)) return launch_kernel<kFormat, 64>(arguments, groups, multiprocessors, stream);
  return launch_kernel<kFormat, 128>(arguments, groups, multiprocessors, stream);
}

}  // namespace

Status sm90_product_many(const Product& product, Stream stream) {
  if (product.x.rows == 0) return {};
  Arguments arguments{places_of(product)};
  arguments.whole_chunks =
      reinterpret_cast<uintptr_t>(product.y.data) % 16 == 0 && arguments.y_stride % 8 == 0 && arguments.n % 8 == 0;
  if (product.weight.format == Format::kFp8) return launch_rows<Format::kFp8>(arguments, product.groups, stream);
  return launch_rows<Format::kBf16>(arguments, product.groups, stream);
}

Status sm90_product(const Product& product, Stream stream) {
  if (product.weight.format == Format::kFp4 || product.weight.k % kProductPiece != 0 ||
      product_pieces(product.weight.k) > kSm90PartPieces * product_parts(product.weight.k))
    return any_product(product, stream);
  return sm90_few_takes(product) ? sm90_product_few(product, stream) : sm90_product_many(product, stream);
}

}  // namespace deepinfer::cuda
