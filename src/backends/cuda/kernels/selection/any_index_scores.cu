// A block streams over one split of a row's keys, a thread a key.  Dot products of e2m1 values are whole numbers: bytes
// of twice the value, four at a time.
#include <cmath>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/formats.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/selection/best_keys.cuh"
#include "backends/cuda/kernels/selection/selection.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = kSelectionThreads;
constexpr int64_t kTilesOfSplit = 32;

// Keys of a tile: whole candidate blocks.
inline int64_t tile_keys(int candidate_block) {
  return kThreads / candidate_block * candidate_block;
}

struct Arguments {
  SelectionStep step;
  float factor;  // (head_dim * heads)^-0.5
  int64_t tile;  // keys
};

// Offsets in dynamic shared memory.
struct Layout {
  int64_t best, pool, query, scales, weights, scores, bytes;
};
__host__ __device__ inline Layout layout_of(const Arguments& arguments, int best_capacity, int pool_capacity) {
  const int64_t heads = arguments.step.op.heads, head_dim = arguments.step.op.head_dim;
  Layout layout{};
  layout.pool = layout.best + 8 * best_capacity;
  layout.query = layout.pool + 8 * pool_capacity;
  layout.scales = layout.query + heads * head_dim;
  layout.weights = layout.scales + heads * (head_dim / kIndexGroup) * 4;
  layout.scores = layout.weights + heads * 4;
  layout.bytes = layout.scores + kThreads * 4;
  return layout;
}

// Twice the e2m1 value of the low 4 bits, as a byte.
__device__ __forceinline__ uint32_t doubled(uint32_t code) {
  const int magnitude = static_cast<int>(code & 7u);
  const int value = magnitude < 4 ? magnitude : (2 + magnitude % 2) << (magnitude / 2 - 1);
  return static_cast<uint32_t>((code & 8u) != 0 ? -value : value) & 0xffu;
}

template <int kGroups>
__device__ float score_of(const uint8_t* key, const Arguments& arguments, const uint16_t* pairs, const int* query,
                          const float* scales, const float* weights) {
  constexpr int kHeadDim = kGroups * kIndexGroup;
  int channels[kHeadDim / 4];
#pragma unroll
  for (int i = 0; i < kHeadDim / 4; ++i)
    channels[i] = static_cast<int>(pairs[key[2 * i]] | static_cast<uint32_t>(pairs[key[2 * i + 1]]) << 16);
  float key_scales[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) key_scales[g] = e8m0_value(key[kHeadDim / 2 + g]);
  float score = 0;
  for (int h = 0; h < arguments.step.op.heads; ++h) {
    float dot = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      int products = 0;  // four times the sum of the group's products
#pragma unroll
      for (int i = 0; i < kIndexGroup / 4; ++i)
        products = __dp4a(query[h * (kHeadDim / 4) + g * (kIndexGroup / 4) + i], channels[g * (kIndexGroup / 4) + i],
                          products);
      dot = __fadd_rn(
          dot, __fmul_rn(static_cast<float>(products) * 0.25f, __fmul_rn(scales[h * kGroups + g], key_scales[g])));
    }
    score = __fadd_rn(score, __fmul_rn(dot < 0.0f ? 0.0f : dot, weights[h]));
  }
  return score;
}

template <int kGroups>
__global__ void __launch_bounds__(kThreads) index_scores(const Arguments arguments) {
  follow_previous_kernels();
  const SelectionStep& step = arguments.step;
  const IndexTopk& op = step.op;
  __shared__ uint16_t pairs[256];
  __shared__ int counts[2];
  __shared__ uint64_t thresholds[2];
  constexpr int kHeadDim = kGroups * kIndexGroup;
  const bool make = op.pool == IndexTopk::Pool::kMake, use = op.pool == IndexTopk::Pool::kUse;
  const int best_capacity = best_keys_capacity(step.rows.most);
  const Layout layout = layout_of(arguments, best_capacity, make ? best_keys_capacity(step.blocks.most) : 0);
  std::byte* const shared = dynamic_shared();
  auto* query = reinterpret_cast<int*>(shared + layout.query);
  auto* scales = reinterpret_cast<float*>(shared + layout.scales);
  auto* weights = reinterpret_cast<float*>(shared + layout.weights);
  auto* scores = reinterpret_cast<float*>(shared + layout.scores);
  BestKeys best{reinterpret_cast<uint64_t*>(shared + layout.best), &counts[0], &thresholds[0], best_capacity,
                static_cast<int>(step.rows.most)};
  BestKeys pool{reinterpret_cast<uint64_t*>(shared + layout.pool), &counts[1], &thresholds[1],
                make ? best_keys_capacity(step.blocks.most) : 0, static_cast<int>(step.blocks.most)};

  const auto& entry = entry_of(step.list, step.first + blockIdx.y);
  const IndexSequence& sequence = entry.sequence;
  const int64_t i = step.first + blockIdx.y - entry.begin, m = sequence.first_row + i;
  const int64_t visible = (sequence.position + i + 1) / op.ratio, block_rows = op.candidate_block;
  const int own = static_cast<int>(threadIdx.x);
  const int32_t* candidates = use ? row_of(op.candidates, m) : nullptr;

  best.start();
  if (make) pool.start();
  pairs[own] = static_cast<uint16_t>(doubled(own & 15) | doubled(own >> 4) << 8);
  __syncthreads();
  const uint8_t* records = row_of(op.queries, m);
  constexpr int kRecord = kHeadDim / 2 + kGroups;
  for (int at = own; at < op.heads * (kHeadDim / 4); at += kThreads) {
    const uint8_t* two = records + at / (kHeadDim / 4) * kRecord + at % (kHeadDim / 4) * 2;
    query[at] = static_cast<int>(pairs[two[0]] | static_cast<uint32_t>(pairs[two[1]]) << 16);
  }
  for (int at = own; at < op.heads * kGroups; at += kThreads)
    scales[at] = e8m0_value(records[at / kGroups * kRecord + kHeadDim / 2 + at % kGroups]);
  for (int h = own; h < op.heads; h += kThreads)
    weights[h] = __fmul_rn(widen(row_of(op.weights, m)[h]), arguments.factor);
  __syncthreads();

  const int64_t places = use ? op.candidates.columns * block_rows : visible;
  const int64_t first_tile = blockIdx.x * kTilesOfSplit;
  for (int64_t tile = first_tile; tile < first_tile + kTilesOfSplit && tile * arguments.tile < places; ++tile) {
    const int64_t place = tile * arguments.tile + own;
    int64_t key = place;
    if (use && place < places) {
      const int32_t block = candidates[place / block_rows];
      key = block < 0 ? visible : block * block_rows + place % block_rows;
    }
    const bool there = own < arguments.tile && place < places && key < visible;
    const float score = there ? score_of<kGroups>(reinterpret_cast<const uint8_t*>(record_of(sequence.keys, key)),
                                                  arguments, pairs, query, scales, weights)
                              : -__builtin_huge_valf();
    best.offer(key_of(score, key));
    if (make) scores[own] = isnan(score) ? -__builtin_huge_valf() : score;
    __syncthreads();
    if (make && own < arguments.tile / block_rows) {
      const int64_t block = tile * arguments.tile / block_rows + own;
      float largest = -__builtin_huge_valf();
      for (int64_t r = 0; r < block_rows; ++r) largest = fmaxf(largest, scores[own * block_rows + r]);
      if (block == (visible - 1) / block_rows) largest = __builtin_huge_valf();  // the block of the newest row
      pool.offer(key_of(largest, block));
    }
    best.settle();
    __syncthreads();
    if (make) pool.settle();
    __syncthreads();
  }
  best.cut(counts[0]);
  const int64_t split = int64_t{blockIdx.y} * step.splits + blockIdx.x;
  for (int k = own; k < counts[0]; k += kThreads) step.rows.keys[split * step.rows.most + k] = best.keys[k];
  if (own == 0) step.rows.counts[split] = counts[0];
  if (!make) return;
  __syncthreads();
  pool.cut(counts[1]);
  for (int k = own; k < counts[1]; k += kThreads) step.blocks.keys[split * step.blocks.most + k] = pool.keys[k];
  if (own == 0) step.blocks.counts[split] = counts[1];
}

template <int kGroups>
Status launch_groups(const Arguments& arguments, Stream stream) {
  const SelectionStep& step = arguments.step;
  const bool make = step.op.pool == IndexTopk::Pool::kMake;
  const Layout layout =
      layout_of(arguments, best_keys_capacity(step.rows.most), make ? best_keys_capacity(step.blocks.most) : 0);
  return launch(index_scores<kGroups>, "any_index_scores", dim3(blocks(step.splits), blocks(step.count)), kThreads,
                layout.bytes, stream, arguments, kEarly);
}

}  // namespace

int64_t splits_of_keys(int64_t keys, int candidate_block) {
  const int64_t split = kTilesOfSplit * tile_keys(candidate_block);
  return keys <= split ? 1 : (keys + split - 1) / split;
}

Status any_index_scores(const SelectionStep& step, Stream stream) {
  const IndexTopk& op = step.op;
  DI_CHECK(op.candidate_block >= 1 && op.candidate_block <= kThreads, "a tile holds whole candidate blocks");
  const auto factor = static_cast<float>(std::pow(static_cast<double>(op.head_dim) * op.heads, -0.5));
  const Arguments arguments{step, factor, tile_keys(op.candidate_block)};
  switch (op.head_dim) {
    case 32:
      return launch_groups<1>(arguments, stream);
    case 64:
      return launch_groups<2>(arguments, stream);
    case 96:
      return launch_groups<3>(arguments, stream);
    case 128:
      return launch_groups<4>(arguments, stream);
    default:
      return unsupported("any_index_scores: an index head has 32, 64, 96 or 128 channels");
  }
}

}  // namespace deepinfer::cuda
