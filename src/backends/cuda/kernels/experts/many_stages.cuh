// The frame of the kernels for many rows.
//
// A block takes 128 weight rows by up to 128 rows of x; the two blocks of a cluster take neighbouring weight rows and
// the same rows of x, each copying half of x to both.  A warpgroup of the block copies a chunk of 128 columns at a time
// into the stages of a ring; two warpgroups, of 64 weight rows each, make bf16 fragments of the codes in registers and
// multiply them with x in shared memory, one quarter of a chunk while the next is being converted.  Accumulators begin
// anew with every part of K and are added to the sums at its end, as sm90_experts.h has the order.
#pragma once

#include <cstdint>

#include "backends/cuda/device/async_copy.cuh"
#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/warpgroup.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/kernels/experts/expert_chunks.cuh"
#include "backends/cuda/kernels/experts/expert_image.cuh"
#include "backends/cuda/kernels/experts/sm90_experts.h"

namespace deepinfer::cuda {

constexpr int kManyThreads = 384;
constexpr int kManyWeightRows = 128;  // of a block
constexpr int kManyCluster = 2;
constexpr int kManyX = kTileRows * kExpertChunk * 2;  // bytes of a stage
constexpr int kManyScales = kManyWeightRows * 4;

template <LinearWeight::Format kFormat>
struct ManyStages {
  static constexpr int kRowBytes = kFormat == LinearWeight::Format::kFp4 ? kExpertChunk / 2 : kExpertChunk;
  static constexpr int kWeights = kManyWeightRows * kRowBytes;
  static constexpr int kBytes = kManyX + kWeights + 1024;  // scales in the last
  static constexpr int kCount = 216 * 1024 / kBytes;
  static constexpr int kShared = kCount * kBytes + 1024;  // and what alignment takes
};

struct ManyArguments {
  Experts experts;
  ExpertTiles tiles;
  int k, chunks, parts;
  int weight_tiles;  // of a cluster: 256 weight rows each
};

// What a cluster works on: rows of an expert and weight rows.
struct ManyUnit {
  ExpertTile tile;
  int weight_tile;  // of the block
};
template <LinearWeight::Format kFormat>
__device__ __forceinline__ int many_units(const ManyArguments& arguments) {
  const ExpertTileCounts& counts = *arguments.tiles.counts;
  return (kFormat == LinearWeight::Format::kFp4 ? counts.routed_tiles : counts.shared_tiles) * arguments.weight_tiles;
}
// All rows of an expert with the same weight rows follow each other, so that the weights are read while they lie in the
// L2.
template <LinearWeight::Format kFormat>
__device__ __forceinline__ ManyUnit many_unit(const ManyArguments& arguments, int unit) {
  const int first = kFormat == LinearWeight::Format::kFp4 ? 0 : arguments.tiles.counts->routed_tiles;
  const ExpertTile any = arguments.tiles.tiles[first + unit / arguments.weight_tiles];
  const int of_expert = unit - (any.expert_first - first) * arguments.weight_tiles;
  // A cluster takes every so many'th unit, often an even number: without the turn of the tiles from one weight tile to
  // the next it would have only full or only small ones of experts with two.
  const int weight_tile = of_expert / any.expert_tiles;
  return {arguments.tiles.tiles[any.expert_first + (of_expert + weight_tile) % any.expert_tiles],
          weight_tile * kManyCluster + static_cast<int>(cluster_rank())};
}

template <LinearWeight::Format kFormat>
__device__ __forceinline__ const ExpertPointers& many_expert(const ManyArguments& arguments, int expert) {
  return kFormat == LinearWeight::Format::kFp4 ? arguments.experts.experts[expert] : arguments.experts.shared;
}

// The ring as a warp goes through it.
template <LinearWeight::Format kFormat>
struct ManyRing {
  using Stages = ManyStages<kFormat>;
  uint32_t memory, full, empty;
  int stage = 0;
  uint32_t phase = 0;

  __device__ uint32_t x() const { return memory + static_cast<uint32_t>(stage * Stages::kBytes); }
  __device__ uint32_t weights() const { return x() + kManyX; }
  __device__ uint32_t scales() const { return weights() + Stages::kWeights; }
  __device__ void next() {
    if (++stage == Stages::kCount) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Of row `row` of the block's 128 rows: the stored row, of w1 or w3 for the hidden layer (each warp has 8 units, gate
// before up), of w2 else.
struct StoredRow {
  const uint8_t *codes, *scales;
  int row;
};
template <bool kHidden>
__device__ __forceinline__ StoredRow stored_row(const ExpertPointers& expert, int weight_tile, int row) {
  if constexpr (kHidden) {
    const bool up = row % 16 >= 8;
    return {up ? expert.w3 : expert.w1, up ? expert.w3_scale : expert.w1_scale,
            weight_tile * (kManyWeightRows / 2) + row / 16 * 8 + row % 8};
  } else {
    return {expert.w2, expert.w2_scale, weight_tile * kManyWeightRows + row};
  }
}

// The copying warpgroup, by its thread number.
template <LinearWeight::Format kFormat, bool kHidden>
__device__ void many_produce(const ManyArguments& arguments, ManyRing<kFormat> ring, int thread) {
  constexpr bool kFp4 = kFormat == LinearWeight::Format::kFp4;
  constexpr int kPieces = ManyStages<kFormat>::kRowBytes / 16, kRowsAtOnce = 128 / kPieces;
  const int units = many_units<kFormat>(arguments), clusters = static_cast<int>(gridDim.x) / kManyCluster;
  const uint32_t rank = cluster_rank();
  const std::byte* const image = kHidden ? arguments.tiles.x : arguments.tiles.hidden;
  const int k = arguments.k, piece = thread % kPieces;
  for (int unit = static_cast<int>(blockIdx.x) / kManyCluster; unit < units; unit += clusters) {
    const ManyUnit own = many_unit<kFormat>(arguments, unit);
    const ExpertPointers& expert = many_expert<kFormat>(arguments, own.tile.expert);
    const int groups = (own.tile.rows + kImageRows - 1) / kImageRows;
    const uint8_t* codes[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const StoredRow row = stored_row<kHidden>(expert, own.weight_tile, i * kRowsAtOnce + thread / kPieces);
      codes[i] = row.codes + (kFp4 ? int64_t{row.row} * (k / 2) : int64_t{row.row} * k) + piece * 16;
    }
    const StoredRow row = stored_row<kHidden>(expert, own.weight_tile, thread);
    const uint8_t* const scales = row.scales + int64_t{kFp4 ? row.row : row.row / 32} * (k / 32);
    for (int chunk = 0; chunk < arguments.chunks; ++chunk, ring.next()) {
      const uint32_t full = ring.full + static_cast<uint32_t>(8 * ring.stage);
      barrier_wait(ring.empty + static_cast<uint32_t>(8 * ring.stage), ring.phase ^ 1);
      if (thread < 32) {
        if (thread == 0) barrier_arrive_expect(full, static_cast<uint32_t>(groups * kImageChunkBytes));
        __syncwarp();
        if (thread < groups && thread % kManyCluster == static_cast<int>(rank))
          bulk_copy_to_cluster(
              ring.x() + static_cast<uint32_t>(thread * kImageChunkBytes),
              image + (int64_t{own.tile.first_group + thread} * arguments.chunks + chunk) * kImageChunkBytes,
              kImageChunkBytes, full, (1 << kManyCluster) - 1);
      }
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int at = i * kRowsAtOnce + thread / kPieces;
        // FP8: a lane reads two neighbouring pieces of a row; those of odd rows change places, for the banks.
        const int to = kFp4 ? piece : piece ^ (at & 1);
        async_copy_16(ring.weights() + static_cast<uint32_t>(at * ManyStages<kFormat>::kRowBytes + to * 16), codes[i]);
        codes[i] += ManyStages<kFormat>::kRowBytes;
      }
      async_copy_4(ring.scales() + static_cast<uint32_t>(thread * 4), scales + chunk * 4);
      barrier_arrive_after_copies(full);
    }
  }
}

// A quarter of a chunk of the lane's two weight rows as fragments of two steps.
template <LinearWeight::Format kFormat>
struct ManyConverter {
  static constexpr bool kFp4 = kFormat == LinearWeight::Format::kFp4;
  using Factors = ScaleFactors<kFp4 ? 126 : 120>;
  uint32_t low, high;
  Factors low_scale, high_scale;
  bool twice;

  // row: of the block, the lane's low one.
  __device__ ManyConverter(const ManyRing<kFormat>& ring, int row, int t)
      : low(ring.weights() + static_cast<uint32_t>(row * ManyStages<kFormat>::kRowBytes)),
        high(low + 8 * ManyStages<kFormat>::kRowBytes),
        low_scale(load_shared_byte(ring.scales() + static_cast<uint32_t>(row * 4 + t)), true),
        high_scale(load_shared_byte(ring.scales() + static_cast<uint32_t>((row + 8) * 4 + t)), true),
        twice(__any_sync(kAllLanes, low_scale.twice || high_scale.twice) != 0),
        t_(t),
        odd_(row & 1) {
    if constexpr (kFp4) {
      low_codes_ = load_shared_16(low + static_cast<uint32_t>(t * 16));
      high_codes_ = load_shared_16(high + static_cast<uint32_t>(t * 16));
    }
  }

  // Steps 2 kQuarter and the next.
  template <int kQuarter>
  __device__ __forceinline__ void convert(uint32_t (&a)[2][4]) const {
    uint32_t first[4], second[4];
    if constexpr (kFp4) {
      const uint32_t lows = word_of(low_codes_, kQuarter), highs = word_of(high_codes_, kQuarter);
      pairs(first, lows);
      pairs(second, highs);
    } else {
      const auto at = static_cast<uint32_t>(((2 * t_ + kQuarter / 2) ^ odd_) * 16 + kQuarter % 2 * 8);
      const uint2 lows = load_shared_8(low + at), highs = load_shared_8(high + at);
      pairs(first, lows);
      pairs(second, highs);
    }
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      a[p / 2][p % 2 * 2] = times(first[p], low_scale.first);
      a[p / 2][p % 2 * 2 + 1] = times(second[p], high_scale.first);
    }
    if (twice) {
#pragma unroll
      for (int s = 0; s < 2; ++s)
#pragma unroll
        for (int i = 0; i < 4; ++i) a[s][i] = times(a[s][i], i % 2 == 0 ? low_scale.second : high_scale.second);
    }
  }

 private:
  static __device__ __forceinline__ void pairs(uint32_t (&to)[4], uint32_t word) {
    to[0] = e2m1_pair<0>(word);
    to[1] = e2m1_pair<1>(word);
    to[2] = e2m1_pair<2>(word);
    to[3] = e2m1_pair<3>(word);
  }
  static __device__ __forceinline__ void pairs(uint32_t (&to)[4], const uint2& words) {
    to[0] = e4m3_pair<0>(words.x, words.y);
    to[1] = e4m3_pair<1>(words.x, words.y);
    to[2] = e4m3_pair<2>(words.x, words.y);
    to[3] = e4m3_pair<3>(words.x, words.y);
  }

  uint4 low_codes_, high_codes_;
  int t_, odd_;
};

// sums = a warpgroup's 64 weight rows times kColumns rows of x, over all of K.
template <LinearWeight::Format kFormat, int kColumns>
__device__ __forceinline__ void many_multiply(float (&sums)[kColumns / 2], const ManyArguments& arguments,
                                              ManyRing<kFormat>& ring, int row, int t) {
  float d[kColumns / 2];
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) sums[i] = 0;
  uint32_t a[2][2][4];
  const auto release = [&](int stage) {
    if (lane_id() < kManyCluster)
      barrier_arrive_in_cluster(ring.empty + static_cast<uint32_t>(8 * stage), static_cast<uint32_t>(lane_id()));
  };
  // Behind it, all but these two steps have been multiplied.
  const auto multiply = [&](const uint32_t(&quarter)[2][4], uint32_t x, bool keep) {
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 2; ++s)
      WgmmaBf16<kColumns>::multiply_registers(
          d, quarter[s], swizzled_descriptor(x + static_cast<uint32_t>(32 * s), kImageChunkBytes), keep || s > 0);
    wgmma_commit();
    wgmma_wait<1>();
  };
  int chunk = 0;
#pragma unroll 1
  for (int part = 0; part < arguments.parts; ++part) {
    const int end = min(chunk + kExpertPartChunks, arguments.chunks);
    int before = -1;  // stage of the chunk before, of the same part
#pragma unroll 1
    for (; chunk < end; ++chunk) {
      barrier_wait(ring.full + static_cast<uint32_t>(8 * ring.stage), ring.phase);
      const ManyConverter<kFormat> converter(ring, row, t);
      converter.template convert<0>(a[0]);
      multiply(a[0], ring.x(), before >= 0);
      if (before >= 0) release(before);
      converter.template convert<1>(a[1]);
      multiply(a[1], ring.x() + 64, true);
      converter.template convert<2>(a[0]);
      multiply(a[0], ring.x() + 1024, true);
      converter.template convert<3>(a[1]);
      multiply(a[1], ring.x() + 1024 + 64, true);
      before = ring.stage;
      ring.next();
    }
    wgmma_wait<0>();
    release(before);
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums[i] += d[i];
  }
}

// The whole kernel but for what becomes of the sums: epilogue.template run<kColumns>(sums, unit, group), group 0 or 1
// of the two that multiply.
template <LinearWeight::Format kFormat, bool kHidden, typename Epilogue>
__device__ __forceinline__ void many_run(const ManyArguments& arguments, const Epilogue& epilogue) {
  using Stages = ManyStages<kFormat>;
  __shared__ uint64_t full[Stages::kCount], empty[Stages::kCount];
  ManyRing<kFormat> ring{(shared_address(dynamic_shared()) + 1023u) & ~1023u, shared_address(full),
                         shared_address(empty)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < Stages::kCount; ++i) {
      barrier_init(shared_address(&full[i]), 128 + 1);
      barrier_init(shared_address(&empty[i]), 8 * kManyCluster);  // warps
    }
    barrier_fence_init();
  }
  cluster_sync();
  wait_for_previous_kernels();
  allow_next_kernel();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  if (group < 0) {
    take_registers_down<40>();
    many_produce<kFormat, kHidden>(arguments, ring, static_cast<int>(threadIdx.x));
  } else {
    take_registers_up<232>();
    const int units = many_units<kFormat>(arguments), clusters = static_cast<int>(gridDim.x) / kManyCluster;
    const int row = group * 64 + warp_id() % 4 * 16 + lane_id() / 4, t = lane_id() % 4;
#pragma unroll 1
    for (int unit = static_cast<int>(blockIdx.x) / kManyCluster; unit < units; unit += clusters) {
      const ManyUnit own = many_unit<kFormat>(arguments, unit);
      const auto take = [&]<int kColumns>() {
        float sums[kColumns / 2];
        many_multiply<kFormat, kColumns>(sums, arguments, ring, row, t);
        epilogue.template run<kColumns>(sums, own, group);
      };
      if (own.tile.rows <= 32) {
        take.template operator()<32>();
      } else if (own.tile.rows <= 64) {
        take.template operator()<64>();
      } else {
        take.template operator()<128>();
      }
    }
  }
  cluster_sync();  // nobody's shared memory goes while the other block may still write to it
}

}  // namespace deepinfer::cuda
