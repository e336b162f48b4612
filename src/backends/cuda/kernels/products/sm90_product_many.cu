// Many rows: clusters of blocks go through tiles of so many times 128 outputs by 64 or 128 rows.  Two warpgroups of a
// block multiply 64 outputs each: a lane has a ring of its own in shared memory for the weights to come, as they are
// stored, and makes of them the register operand of wgmma, 16 columns at a time while the products of those before
// run; the accumulators begin anew with every part of K and are added to the sums at its end.  One thread more brings the
// image of x (sm90_product_image.cuh) into a ring that both share: each block of a cluster copies its share to all.
//
// Where there are fewer tiles than multiprocessors, a unit of work is a section of a tile's parts; the sums of all parts
// then go to memory, and sm90_add_parts adds them in their order.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/warpgroup.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/kernels/products/product_many_output.cuh"
#include "backends/cuda/kernels/products/product_many_rows.cuh"
#include "backends/cuda/kernels/products/product_many_units.cuh"
#include "backends/cuda/kernels/products/sm90_add_parts.h"
#include "backends/cuda/kernels/products/sm90_pieces.cuh"
#include "backends/cuda/kernels/products/sm90_product_image.cuh"
#include "backends/cuda/kernels/products/sm90_product_image.h"
#include "backends/cuda/kernels/products/sm90_product_places.h"
#include "backends/cuda/kernels/products/sm90_products.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

using namespace product_many;

constexpr int kMultipliers = 256, kThreads = kMultipliers + 128;
constexpr int kWeightPlaces = 5;

template <Format kFormat, int kTokens, bool kSections>
__device__ __forceinline__ void multiply(const Arguments& arguments, const Place& place, uint32_t ring, uint32_t rings,
                                         Barriers& barriers, std::byte* staging) {
  constexpr int kColumnBytes = kFormat == Format::kFp8 ? 1 : 2;
  const int lane = lane_id(), warpgroup = warp_id() / 4;
  // The weights to ask for next.
  const uint32_t weight_ring =
      kept(rings + place_in_warp<kFormat>() +
           static_cast<uint32_t>(warp_id() * kWeightPlaces * Piece<kFormat>::kWarpBytes));
  int next_unit = place.cluster, next_pieces = 0;  // next_pieces: of that unit, still to ask for
  const uint8_t *low = nullptr, *high = nullptr;
  const auto start_unit = [&] {
    if (next_unit >= arguments.units) return;
    const Tile tile = tile_at<kTokens>(arguments, place, next_unit);
    const Section section = section_at<kSections>(arguments, next_unit);
    next_pieces = section.pieces;
    const int output = tile.output + warp_id() * 16 + lane / 4, first = tile.group * arguments.n;
    const int column = section.first_piece * kPieceColumns + lane % 4 * 16;
    low = arguments.weight + (int64_t{first + min(output, arguments.n - 1)} * arguments.k + column) * kColumnBytes;
    high = arguments.weight + (int64_t{first + min(output + 8, arguments.n - 1)} * arguments.k + column) * kColumnBytes;
    low = kept(low);
    high = kept(high);
  };
  const auto ask = [&](uint32_t to) {
    if (next_unit < arguments.units) {
      ask_for_piece<kFormat>(to, low, high);
      low += kPieceColumns * kColumnBytes;
      high += kPieceColumns * kColumnBytes;
      if (--next_pieces == 0) {
        next_unit += place.clusters;
        start_unit();
      }
    }
    async_copies_commit();
  };
  start_unit();
#pragma unroll
  for (int i = 0; i < kWeightPlaces; ++i) ask(weight_ring + i * Piece<kFormat>::kWarpBytes);
  // Lane i: scale of the part's block i of 32 columns.
  const auto part_first = [&](int part) { return first_piece_of(arguments, part); };
  const auto codes_of = [&](int unit, int part) -> uint32_t {
    if (kFormat != Format::kFp8 || unit >= arguments.units || lane >= 2 * (part_first(part + 1) - part_first(part)))
      return 0;
    const Tile tile = tile_at<kTokens>(arguments, place, unit);
    const int row = tile.group * arguments.n + min(tile.output + warp_id() * 16, arguments.n - 1);
    return arguments.scales[int64_t{row / 32} * (arguments.k / 32) + part_first(part) * 2 + lane];
  };
  uint32_t next_codes = codes_of(place.cluster, section_at<kSections>(arguments, place.cluster).first_part);
  allow_next_kernel();
  wait_for_previous_kernels();

  uint32_t weight_place = weight_ring;
  const uint32_t weight_end = kept(weight_ring + kWeightPlaces * Piece<kFormat>::kWarpBytes);
  Piece<kFormat> weights;  // the next ones
  const auto take_weights = [&] {
    async_copies_wait<kWeightPlaces - 1>();
    get_piece(weights, weight_place);
    ask(weight_place);
    weight_place += Piece<kFormat>::kWarpBytes;
    if (weight_place == weight_end) weight_place = weight_ring;
  };
  take_weights();
  const uint32_t nothing = static_cast<uint32_t>(arguments.pieces) >> 31;  // 0, but not for the compiler

  float d[kTokens / 2], sums[kTokens / 2];
  Turn<kStages<kFormat>> turn;
  const uint32_t full = kept(shared_address(barriers.full)), empty = kept(shared_address(barriers.empty));
  const uint64_t first_rows = swizzled_descriptor(ring);
  // A lane for each block of the cluster.
  const bool releases = lane < place.blocks;
  const uint32_t empty_there = releases ? cluster_address(empty, static_cast<uint32_t>(lane)) : 0;
  const auto release = [&](int stage) {
    if (releases) arrive_in_cluster(empty_there + static_cast<uint32_t>(stage) * 8);
  };
#pragma unroll 1
  for (int unit = place.cluster; unit < arguments.units; unit += place.clusters) {
    const Section section = section_at<kSections>(arguments, unit);
    if constexpr (!kSections) {
#pragma unroll
      for (float& sum : sums) sum = -0.0f;  // the number that changes no other, not a zero's sign either
    }
    int part_end = section.first_piece;
#pragma unroll 1
    for (int part = section.first_part; part < section.first_part + section.parts; ++part) {
      const int first = part_end;
      part_end = part_first(part + 1);
      const Scales scales = scales_of_codes(next_codes);
      const int following = unit + place.clusters;
      next_codes = part + 1 < section.first_part + section.parts
                       ? codes_of(unit, part + 1)
                       : codes_of(following, section_at<kSections>(arguments, following).first_part);
      int before = -1;  // place of the piece before, of the same part
      uint32_t a[4][4];
#pragma unroll 1
      for (int piece = first; piece < part_end; ++piece) {
        const uint64_t rows = first_rows + static_cast<uint32_t>(turn.place) * (kTokens * kRowBytes / 16);
        const uint32_t factor = kFormat == Format::kFp8 ? factor_of<kFormat>(scales, piece - first) : nothing;
        barrier_wait(full + static_cast<uint32_t>(turn.place) * 8, turn.parity);
#pragma unroll
        for (int s = 0; s < 4; ++s) {
          fragment<kFormat>(a[s], weights, s, scales, factor, piece - first);
          if (s == 3) take_weights();
          wgmma_fence();
          WgmmaBf16<kTokens>::multiply_registers(d, a[s], rows + 2 * s, s > 0 || before >= 0);  // 32 bytes further
          wgmma_commit();
          wgmma_wait<3>();  // the operand of the next step is free
          if (s == 2 && before >= 0) release(before);
        }
        before = turn.place;
        turn.next();
      }
      wgmma_wait<0>();
      release(before);
      if constexpr (kSections) {
        write_fp32<kTokens>(arguments, d, tile_at<kTokens>(arguments, place, unit), warpgroup,
                            arguments.part_sums + part * arguments.rows * arguments.outputs, arguments.outputs);
      } else {
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) sums[i] += d[i];
      }
    }
    if constexpr (!kSections)
      write_sums<kTokens>(arguments, sums, tile_at<kTokens>(arguments, place, unit), warpgroup,
                          staging + warpgroup * kTokens * 128);
  }
}

template <Format kFormat, int kTokens, bool kSections>
__global__ void __launch_bounds__(kThreads, 1) product_many(const Arguments arguments) {
  extern __shared__ __align__(1024) std::byte memory[];  // the rows' ring, the weights' rings, what is written
  constexpr int kRing = kStages<kFormat> * kTokens * kRowBytes;
  constexpr int kRings = kMultipliers / 32 * kWeightPlaces * Piece<kFormat>::kWarpBytes;
  __shared__ Barriers barriers;
  const Place place = place_of_block();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages<kFormat>; ++i) {
      barrier_init(shared_address(&barriers.full[i]), 1);
      barrier_init(shared_address(&barriers.empty[i]), static_cast<uint32_t>(kMultipliers / 32 * place.blocks));
    }
    barrier_fence_init();
  }
  cluster_sync();
  const uint32_t ring = shared_address(memory);
  if (threadIdx.x >= kMultipliers) {
    take_registers_down<24>();
    wait_for_previous_kernels();
    if (threadIdx.x == kMultipliers) bring_rows<kFormat, kTokens, kSections>(arguments, place, ring, barriers);
    __syncwarp();
  } else {
    take_registers_up<240>();
    multiply<kFormat, kTokens, kSections>(arguments, place, ring, ring + kRing, barriers, memory + kRing + kRings);
  }
  cluster_sync();  // nobody's shared memory goes while another block may still write to it
}

// Weights of few tiles rather have twice the blocks.
int cluster_of(const Arguments& arguments) {
  return arguments.n > 4 * kOutputs ? 2 : 1;
}

template <Format kFormat, int kTokens, bool kSections>
Status launch_kernel(Arguments arguments, int groups, int multiprocessors, Stream stream) {
  constexpr const char* kName = "sm90_product_many";
  constexpr int kShared = (kStages<kFormat> + 2) * kTokens * kRowBytes +
                          kMultipliers / 32 * kWeightPlaces * Piece<kFormat>::kWarpBytes;
  const int cluster = cluster_of(arguments);
  arguments.output_tiles = static_cast<int>(divided_up(arguments.n, kOutputs * cluster));
  arguments.row_tiles = static_cast<int>(divided_up(arguments.rows, kTokens));
  arguments.units = groups * arguments.output_tiles * arguments.row_tiles << arguments.section_bits;
  const auto kernel = product_many<kFormat, kTokens, kSections>;
  return launch(kernel, kName, dim3(blocks(std::min(arguments.units, multiprocessors / cluster) * cluster)), kThreads,
                kShared, stream, arguments, {.cluster = static_cast<unsigned>(cluster), .early = true});
}

// Sections of a tile that make the most of the multiprocessors, where all sums of parts fit into the scratch memory.
int section_bits_of(const Arguments& arguments, int groups, int multiprocessors, int64_t sum_bytes) {
  if (arguments.outputs * arguments.rows * arguments.parts * 4 > sum_bytes) return 0;
  const int cluster = cluster_of(arguments), clusters = multiprocessors / cluster;
  const int64_t tiles =
      groups * divided_up(arguments.n, kOutputs * cluster) * divided_up(arguments.rows, kSectionTokens);
  const auto time = [&](int bits) {  // in that of a tile
    return static_cast<double>(divided_up(tiles << bits, clusters)) / (1 << bits);
  };
  int best = 0;
  for (int bits = 1; bits <= arguments.part_bits; ++bits)
    if (time(bits) < 0.8 * time(best)) best = bits;
  return time(best) <= 0.7 * time(0) ? best : 0;
}

template <Format kFormat>
Status launch_rows(Arguments arguments, int groups, int64_t sum_bytes, Stream stream) {
  DI_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  arguments.section_bits = section_bits_of(arguments, groups, multiprocessors, sum_bytes);
  if (arguments.section_bits > 0) {
    DI_RETURN_IF_ERROR((launch_kernel<kFormat, kSectionTokens, true>(arguments, groups, multiprocessors, stream)));
    return sm90_add_parts({arguments.part_sums, arguments.rows, arguments.outputs, arguments.parts}, arguments.y,
                          arguments.y32, arguments.y_stride, stream);
  }
  // Tiles of 64 rows take 0.6 times as long as those of 128.
  const int64_t output_tiles = groups * divided_up(arguments.n, kOutputs);
  const auto turns = [&](int tokens) {
    return static_cast<double>(divided_up(output_tiles * divided_up(arguments.rows, tokens), multiprocessors));
  };
  if (0.6 * turns(64) < turns(128)) return launch_kernel<kFormat, 64, false>(arguments, groups, multiprocessors, stream);
  return launch_kernel<kFormat, 128, false>(arguments, groups, multiprocessors, stream);
}

}  // namespace

Status sm90_product_many(const Product& product, const ProductScratch& scratch, Stream stream) {
  const int64_t columns = product.groups * product.weight.k;
  const int64_t most = scratch.bytes / product_image_bytes(128, columns) * 128;
  DI_CHECK(most > 0, "scratch memory for 128 rows of x");
  for (int64_t row = 0; row < product.x.rows; row += most) {
    Product some = product;
    const int64_t rows = std::min(most, product.x.rows - row);
    some.x = product.x.rows_from(row, rows);
    if (product.y.data != nullptr) some.y = product.y.rows_from(row, rows);
    if (product.y32.data != nullptr) some.y32 = product.y32.rows_from(row, rows);
    DI_RETURN_IF_ERROR(sm90_product_image(some, scratch.image, stream));
    Arguments arguments{places_of(some)};
    arguments.image = scratch.image;
    arguments.part_sums = scratch.sums;
    arguments.outputs = some.weight.n;
    arguments.row_groups = static_cast<int>(divided_up(rows, kImageRows));
    arguments.whole_chunks = reinterpret_cast<uintptr_t>(some.y.data) % 16 == 0 && arguments.y_stride % 8 == 0 &&
                             arguments.n % 8 == 0;
    DI_RETURN_IF_ERROR(some.weight.format == Format::kFp8
                           ? launch_rows<Format::kFp8>(arguments, some.groups, scratch.sum_bytes, stream)
                           : launch_rows<Format::kBf16>(arguments, some.groups, scratch.sum_bytes, stream));
  }
  return {};
}

Status sm90_product(const Product& product, const ProductScratch& scratch, Stream stream) {
  if (product.weight.format == Format::kFp4 || product.weight.k % kProductPiece != 0 ||
      product_pieces(product.weight.k) > kSm90PartPieces * product_parts(product.weight.k))
    return any_product(product, stream);
  return sm90_few_takes(product) ? sm90_product_few(product, stream) : sm90_product_many(product, scratch, stream);
}

}  // namespace deepinfer::cuda
