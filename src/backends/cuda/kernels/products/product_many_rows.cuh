// The way of x into shared memory in the kernel for many rows (sm90_product_many.cu): a ring of pieces of the image.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/kernels/products/product_many_units.cuh"
#include "backends/cuda/kernels/products/sm90_pieces.cuh"
#include "backends/cuda/kernels/products/sm90_product_image.cuh"

namespace deepinfer::cuda::product_many {

constexpr int kPieceColumns = static_cast<int>(kProductPiece);
constexpr int kRowBytes = kPieceColumns * 2;  // of a piece of a row of x

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

// The pieces of the image of the cluster's tiles, one after the other; by one thread of the block.
template <Format kFormat, int kTokens, bool kSections>
__device__ __forceinline__ void bring_rows(const Arguments& arguments, const Place& place, uint32_t ring,
                                           Barriers& barriers) {
  Turn<kStages<kFormat>> turn;
  const auto all = static_cast<uint16_t>((1 << place.blocks) - 1);
  for (int unit = place.cluster; unit < arguments.units; unit += place.clusters) {
    const Tile tile = tile_at<kTokens>(arguments, place, unit);
    const Section section = section_at<kSections>(arguments, unit);
    const int first = tile.row / kImageRows, there = min(kTokens / kImageRows, arguments.row_groups - first);
    const int from = there * place.rank / place.blocks, own = there * (place.rank + 1) / place.blocks - from;
    const std::byte* image = arguments.image + image_place(tile.group, arguments.pieces, section.first_piece,
                                                           arguments.row_groups, first + from);
    const uint32_t to = ring + static_cast<uint32_t>(from * kImageGroupBytes);
#pragma unroll 1
    for (int piece = 0; piece < section.pieces; ++piece, turn.next()) {
      const uint32_t full = shared_address(&barriers.full[turn.place]);
      barrier_wait(shared_address(&barriers.empty[turn.place]), turn.parity ^ 1);
      barrier_arrive_expect(full, static_cast<uint32_t>(there * kImageGroupBytes));
      if (own > 0)
        bulk_copy_to_cluster(to + static_cast<uint32_t>(turn.place * kTokens * kRowBytes), image,
                             static_cast<uint32_t>(own * kImageGroupBytes), full, all);
      image += int64_t{arguments.row_groups} * kImageGroupBytes;
    }
  }
}

}  // namespace deepinfer::cuda::product_many
