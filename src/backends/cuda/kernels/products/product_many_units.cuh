// How the kernel for many rows (sm90_product_many.cu) cuts a product into units of work, and what it is given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/kernels/products/sm90_product_places.h"

namespace deepinfer::cuda::product_many {

constexpr int kOutputs = 128;       // of a block's tile
constexpr int kSectionTokens = 64;  // of a tile that has sections
constexpr int kBand = 16;           // tiles of rows that meet the same weights one after the other

struct Arguments : ProductPlaces {
  const std::byte* image;
  int row_groups;                      // of 8 rows
  int output_tiles, row_tiles, units;  // tiles of a cluster; units: sections of the tiles of all groups
  int section_bits;                    // a tile has 2^section_bits sections
  float* part_sums;                    // [parts][rows][outputs], where tiles have sections
  int64_t outputs;                     // of all groups
  bool whole_chunks;                   // 8 neighbouring outputs of y are one aligned store
};

struct Tile {
  int group, output, row;  // output: of the block
};

struct Section {  // of a tile
  int first_part, parts, first_piece, pieces;
};
__device__ __forceinline__ int first_piece_of(const Arguments& arguments, int part) {
  return part * arguments.pieces >> arguments.part_bits;
}
template <bool kSections>
__device__ __forceinline__ Section section_at(const Arguments& arguments, int unit) {
  if constexpr (!kSections) return {0, arguments.parts, 0, arguments.pieces};
  const int parts = arguments.parts >> arguments.section_bits;
  const int first = (unit & ((1 << arguments.section_bits) - 1)) * parts, piece = first_piece_of(arguments, first);
  return {first, parts, piece, first_piece_of(arguments, first + parts) - piece};
}

struct Place {  // of a block
  int cluster, clusters, rank, blocks;
};
__device__ __forceinline__ Place place_of_block() {
  const int blocks = static_cast<int>(cluster_blocks());
  return {static_cast<int>(blockIdx.x) / blocks, static_cast<int>(gridDim.x) / blocks, static_cast<int>(cluster_rank()),
          blocks};
}

template <int kTokens>
__device__ __forceinline__ Tile tile_at(const Arguments& arguments, const Place& place, int unit) {
  const int index = unit >> arguments.section_bits;
  const int of_group = arguments.output_tiles * arguments.row_tiles;
  const int group = index / of_group, in_group = index - group * of_group;
  const int band = in_group / (kBand * arguments.output_tiles),
            in_band = in_group - band * kBand * arguments.output_tiles;
  const int width = min(kBand, arguments.row_tiles - band * kBand);
  return {group, (in_band / width * place.blocks + place.rank) * kOutputs, (band * kBand + in_band % width) * kTokens};
}

}  // namespace deepinfer::cuda::product_many
