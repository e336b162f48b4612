// A block takes some tiles of 256 keys of a row, a warp 32 keys of a tile: mma.sync with keys as its M side, the heads'
// queries as its N side, in registers all the time.  Within a group of 32 channels the sums are exact, whatever their
// order, so a lane takes the eight channels of one word of the record.  What the lanes of four keep of a key, its
// heads, passes through shared memory to the lane that adds them in the order of the contract.
#include <algorithm>
#include <cmath>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/fp4.cuh"
#include "backends/cuda/device/fp8.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/mma.cuh"
#include "backends/cuda/device/unaligned_words.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/selection/radix_select.cuh"
#include "backends/cuda/kernels/selection/selection.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = kSelectionThreads, kWarps = kThreads / 32;
constexpr int kHeads = kSm90IndexHeads, kHeadDim = kSm90IndexHeadDim, kGroups = kHeadDim / kIndexGroup;
constexpr int kRecord = kHeadDim / 2 + kGroups;  // bytes
constexpr int kTile = kSm90IndexTile, kWarpKeys = kTile / kWarps;
constexpr int kHeadTiles = kHeads / 8;
constexpr int kPitch = kHeads + 8;  // floats from a key's products to the next: no bank conflicts

struct Arguments {
  SelectionStep step;
  float factor;  // (head_dim * heads)^-0.5
  int best_capacity, pool_capacity;
};

// Eight codes, as they are, as pairs of codes i and i + 4.
__device__ __forceinline__ void decode_codes(uint32_t (&pairs)[4], uint32_t word) {
  constexpr uint32_t kWhole = 0x7e807e80;  // 2^126, twice
  pairs[0] = times(e2m1_pair<0>(word), kWhole);
  pairs[1] = times(e2m1_pair<1>(word), kWhole);
  pairs[2] = times(e2m1_pair<2>(word), kWhole);
  pairs[3] = times(e2m1_pair<3>(word), kWhole);
}

// The scale of a group; a quantiser's codes are 1 to 254.
__device__ __forceinline__ float scale_of(uint32_t scales, int group) {
  return __uint_as_float((scales >> (8 * group) & 0xffu) << 23);
}
// A NaN stays one.
__device__ __forceinline__ float not_below_zero(float value) {
  float result;
  asm("max.NaN.f32 %0, %1, 0f00000000;\n" : "=f"(result) : "f"(value));
  return result;
}

// Four floats of a key's products lie at the piece of 16 bytes `piece`, turned so that eight keys meet no bank twice.
__device__ __forceinline__ float* piece_of(float* products, int key, int piece) {
  return products + key * kPitch + (piece ^ (key >> 2 & 1)) * 4;
}

// As sort_descending, 2 kThreads keys: in registers, through shared memory only from warp to warp.
__device__ void sort_two_each(uint64_t* keys) {
  const int own = static_cast<int>(threadIdx.x);
  uint64_t mine[2] = {keys[own], keys[own + kThreads]};
#pragma unroll 1
  for (int size = 2; size <= 2 * kThreads; size *= 2)
#pragma unroll 1
    for (int step = size / 2; step > 0; step /= 2) {
      uint64_t other[2] = {mine[1], mine[0]};
      if (step < 32) {
        for (int k = 0; k < 2; ++k) other[k] = __shfl_xor_sync(kAllLanes, mine[k], step);
      } else if (step < kThreads) {
        __syncthreads();
        for (int k = 0; k < 2; ++k) keys[own + k * kThreads] = mine[k];
        __syncthreads();
        for (int k = 0; k < 2; ++k) other[k] = keys[(own ^ step) + k * kThreads];
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int place = own + k * kThreads;
        const bool larger = ((place & size) == 0) == ((place & step) == 0);
        mine[k] = (mine[k] > other[k]) == larger ? mine[k] : other[k];
      }
    }
  __syncthreads();
  for (int k = 0; k < 2; ++k) keys[own + k * kThreads] = mine[k];
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads, 2) index_scores(const Arguments arguments) {
  follow_previous_kernels();
  const SelectionStep& step = arguments.step;
  const IndexTopk& op = step.op;
  __shared__ int counts[2];
  __shared__ uint64_t thresholds[2];
  __shared__ float weights[kHeads];
  __shared__ RadixRoom room;
  const bool make = op.pool == IndexTopk::Pool::kMake, use = op.pool == IndexTopk::Pool::kUse;
  const int own = static_cast<int>(threadIdx.x), lane = lane_id(), warp = warp_id(), quarter = lane % 4;
  float* const products = reinterpret_cast<float*>(dynamic_shared()) + warp * kWarpKeys * kPitch;
  auto* keys = reinterpret_cast<uint64_t*>(dynamic_shared() + kTile * kPitch * 4);
  BestKeys best{keys, &counts[0], &thresholds[0], arguments.best_capacity, static_cast<int>(step.rows.most)};
  BestKeys pool{keys + arguments.best_capacity, &counts[1], &thresholds[1], arguments.pool_capacity,
                static_cast<int>(step.blocks.most)};

  const auto& entry = entry_of(step.list, step.first + blockIdx.y);
  const IndexSequence& sequence = entry.sequence;
  const int64_t i = step.first + blockIdx.y - entry.begin, m = sequence.first_row + i;
  const auto visible = static_cast<int>((sequence.position + i + 1) / op.ratio);
  const int block_rows = op.candidate_block;
  const int32_t* candidates = use ? row_of(op.candidates, m) : nullptr;
  const auto rows_per_block = static_cast<uint32_t>(sequence.keys.rows_per_block);

  best.start();
  if (make) pool.start();
  if (own < kHeads) weights[own] = own < op.heads ? __fmul_rn(widen(row_of(op.weights, m)[own]), arguments.factor) : 0;
  // Lane l: of head l / 4 of each eight, the channels of word l % 4 of each group, times the scale.
  uint32_t queries[kHeadTiles][kGroups][4];
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile) {
    const int head = tile * 8 + lane / 4;
    const uint8_t* record = row_of(op.queries, m) + head * kRecord;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      uint32_t word = 0, scale = 127;
      if (head < op.heads) {
        const uint8_t* codes = record + g * (kIndexGroup / 2) + quarter * 4;
        word = codes[0] | static_cast<uint32_t>(codes[1]) << 8 | static_cast<uint32_t>(codes[2]) << 16 |
               static_cast<uint32_t>(codes[3]) << 24;
        scale = record[kHeadDim / 2 + g];
      }
      decode_codes(queries[tile][g], word);
#pragma unroll
      for (uint32_t& pair : queries[tile][g]) pair = times(pair, scale * 0x00800080u);
    }
  }
  __syncthreads();

  const int places = use ? static_cast<int>(op.candidates.columns) * block_rows : visible;
  const int64_t tiles = (places + kTile - 1) / kTile;
  const auto first_tile = static_cast<int>(blockIdx.x * tiles / step.splits);
  const auto end_tile = static_cast<int>((blockIdx.x + 1) * tiles / step.splits);
  // The key of a place, `visible` where there is none.
  const auto key_at = [&](int place) {
    if (place >= places) return visible;
    if (!use) return place;
    const int32_t block = candidates[place / block_rows];
    return block < 0 ? visible : min(block * block_rows + place % block_rows, visible);
  };
  const auto record_at = [&](int key) -> const uint8_t* {
    if (key >= visible) return nullptr;
    const uint32_t block = static_cast<uint32_t>(key) / rows_per_block;
    return reinterpret_cast<const uint8_t*>(sequence.keys.blocks[block]) +
           static_cast<int64_t>(static_cast<uint32_t>(key) - block * rows_per_block) * sequence.keys.record_bytes;
  };
  int next_key = key_at(first_tile * kTile + warp * kWarpKeys + lane);
  const uint8_t* next_record = first_tile < end_tile ? record_at(next_key) : nullptr;
#pragma unroll 1
  for (int tile = first_tile; tile < end_tile; ++tile) {
    const int place = tile * kTile + warp * kWarpKeys + lane, key = next_key;
    const uint8_t* const record = next_record;
    if (tile + 1 < end_tile) {
      next_key = key_at(place + kTile);
      next_record = record_at(next_key);
      if (next_record != nullptr) asm volatile("prefetch.global.L2 [%0];\n" ::"l"(next_record));
    }
#pragma unroll 1
    for (int part = 0; part < kWarpKeys / 16; ++part) {
      uint32_t words[2][kGroups] = {}, scales[2] = {};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const auto* at = reinterpret_cast<const uint8_t*>(
            __shfl_sync(kAllLanes, reinterpret_cast<uint64_t>(record), part * 16 + r * 8 + lane / 4));
        if (at == nullptr) continue;
        if (reinterpret_cast<uintptr_t>(at) % 4 == 0) {
          const auto* of_record = reinterpret_cast<const uint32_t*>(at);
#pragma unroll
          for (int g = 0; g < kGroups; ++g) words[r][g] = of_record[g * (kIndexGroup / 8) + quarter];
          scales[r] = of_record[kHeadDim / 8];
        } else {
#pragma unroll
          for (int g = 0; g < kGroups; ++g) load_unaligned<1>(&words[r][g], at + g * (kIndexGroup / 2) + quarter * 4);
          load_unaligned<1>(&scales[r], at + kHeadDim / 2);
        }
      }
      float dots[kHeadTiles][4] = {};
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        uint32_t rows[2][4];
        decode_codes(rows[0], words[0][g]);
        decode_codes(rows[1], words[1][g]);
        const float of_rows[2] = {scale_of(scales[0], g), scale_of(scales[1], g)};
#pragma unroll
        for (int t = 0; t < kHeadTiles; ++t) {
          float d[4] = {};
          mma_bf16(d, {rows[0][0], rows[1][0], rows[0][1], rows[1][1]}, queries[t][g][0], queries[t][g][1]);
          mma_bf16(d, {rows[0][2], rows[1][2], rows[0][3], rows[1][3]}, queries[t][g][2], queries[t][g][3]);
          // The product is exact: one rounding, that of the sum.
#pragma unroll
          for (int r = 0; r < 4; ++r) dots[t][r] = __fmaf_rn(d[r], of_rows[r / 2], dots[t][r]);
        }
      }
#pragma unroll
      for (int t = 0; t < kHeadTiles; ++t)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int of_part = part * 16 + r * 8 + lane / 4;
          const float2 of_heads = *reinterpret_cast<const float2*>(&weights[t * 8 + quarter * 2]);
          *reinterpret_cast<float2*>(piece_of(products, of_part, 2 * t + quarter / 2) + quarter % 2 * 2) =
              make_float2(__fmul_rn(not_below_zero(dots[t][2 * r]), of_heads.x),
                          __fmul_rn(not_below_zero(dots[t][2 * r + 1]), of_heads.y));
        }
    }
    __syncwarp();
    float score = 0;
#pragma unroll
    for (int piece = 0; piece < kHeads / 4; ++piece) {
      const float4 four = *reinterpret_cast<const float4*>(piece_of(products, lane, piece));
      score = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(score, four.x), four.y), four.z), four.w);
    }
    __syncwarp();
    if (key >= visible) score = -__builtin_huge_valf();
    best.offer(key_of(score, key));
    if (make) {
      float largest = isnan(score) ? -__builtin_huge_valf() : score;
      for (int step_of = 1; step_of < block_rows; step_of *= 2)
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step_of));
      const int block = place / block_rows;
      if (block == (visible - 1) / block_rows) largest = __builtin_huge_valf();  // the block of the newest row
      if (place % block_rows == 0) pool.offer(key_of(largest, block));
    }
    __syncthreads();
    if (counts[0] + kThreads > best.capacity) keep_best(best, room);
    if (make && counts[1] + kThreads > pool.capacity) keep_best(pool, room);
    __syncthreads();
  }
  const int64_t split = int64_t{blockIdx.y} * step.splits + blockIdx.x;
  const auto write = [&](BestKeys& from, const BestOfSplits& to) {
    keep_best(from, room);
    const int count = *from.count;
    int sorted = 2 * kThreads;
    while (sorted < count) sorted *= 2;
    for (int k = count + own; k < sorted; k += kThreads) from.keys[k] = 0;
    __syncthreads();
    if (sorted == 2 * kThreads) {
      sort_two_each(from.keys);
    } else {
      sort_descending(from.keys, sorted);
    }
    for (int k = own; k < count; k += kThreads) to.keys[split * to.most + k] = from.keys[k];
    if (own == 0) to.counts[split] = count;
  };
  write(best, step.rows);
  if (make) write(pool, step.blocks);
}

}  // namespace

bool sm90_index_takes(const IndexTopk& op) {
  return op.heads <= kHeads && op.head_dim == kHeadDim && (op.candidate_block == 8 || op.candidate_block == 16);
}

int64_t sm90_index_splits(int64_t keys, int64_t rows) {
  constexpr int64_t kBlocks = 264;  // that run at the same time
  const int64_t tiles = std::max<int64_t>(1, (keys + kTile - 1) / kTile);
  return std::clamp<int64_t>((kBlocks + rows - 1) / rows, 1, tiles);
}

Status sm90_index_scores(const SelectionStep& step, Stream stream) {
  const IndexTopk& op = step.op;
  DI_CHECK(sm90_index_takes(op), "a step that this kernel takes");
  const auto factor = static_cast<float>(std::pow(static_cast<double>(op.head_dim) * op.heads, -0.5));
  // Twice the room that is needed: long streams are cut less often.
  const Arguments arguments{step, factor, 2 * best_keys_capacity(step.rows.most),
                            op.pool == IndexTopk::Pool::kMake ? best_keys_capacity(step.blocks.most) : 0};
  return launch(index_scores, "sm90_index_scores", dim3(blocks(step.splits), blocks(step.count)), kThreads,
                kTile * kPitch * 4 + 8 * int64_t{arguments.best_capacity + arguments.pool_capacity}, stream, arguments,
                kEarly);
}

}  // namespace deepinfer::cuda
