// One block a row.  The splits' lists are in descending order: where so many splits have so many keys each that they
// make up all that are wanted, the least of those is a bound, and of each split only what reaches it is read.  The best
// of what was read set bits of a map, which has their ascending order.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/selection/radix_select.cuh"
#include "backends/cuda/kernels/selection/selection.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kAtOnce = 4 * kThreads;  // keys that are read between two barriers

struct Arguments {
  SequenceList<IndexSequence> list;
  int64_t first;
  int splits;
  BestOfSplits from;
  MatrixView<int32_t> to;
  int capacity;
  int words;  // of the map of indices
};

__global__ void __launch_bounds__(kThreads) index_best(const Arguments arguments) {
  follow_previous_kernels();
  __shared__ int count, full_splits;
  __shared__ unsigned long long bound;
  __shared__ uint64_t threshold;
  __shared__ RadixRoom room;
  __shared__ int of_warps[kThreads / 32];
  const int own = static_cast<int>(threadIdx.x), splits = arguments.splits;
  const auto most = static_cast<int>(arguments.from.most);
  const uint64_t* from = arguments.from.keys + int64_t{blockIdx.x} * splits * most;
  const int32_t* counts = arguments.from.counts + int64_t{blockIdx.x} * splits;
  BestKeys best{reinterpret_cast<uint64_t*>(dynamic_shared()), &count, &threshold, arguments.capacity, most};
  auto* map = reinterpret_cast<uint32_t*>(best.keys + arguments.capacity);
  for (int word = own; word < arguments.words; word += kThreads) map[word] = 0;
  best.start();
  if (own == 0) {
    full_splits = 0;
    bound = ~0ull;
  }
  __syncthreads();
  const int enough = 2 * ((most + splits - 1) / splits);
  int has = 0;  // keys of split `own`
  if (own < splits) has = counts[own];
  const bool full = own < splits && has >= enough;
  if (full) atomicAdd(&full_splits, 1);
  __syncthreads();
  const int each = full_splits == 0 ? enough + 1 : (most + full_splits - 1) / full_splits;
  if (full && each <= enough) atomicMin(&bound, static_cast<unsigned long long>(from[int64_t{own} * most + each - 1]));
  __syncthreads();
  const uint64_t least = bound == ~0ull ? 0 : bound;

  // Pieces of the lists, until no split's next piece can reach the bound.
  int piece = 32;
  while (piece * splits < kThreads) piece *= 2;
  int begin = 0;
  for (bool more = true; more;) {
    bool reaches = false;
    for (int first = 0; first < piece * splits; first += kAtOnce) {
#pragma unroll
      for (int k = 0; k < kAtOnce / kThreads; ++k) {
        const int at = first + k * kThreads + own, split = at / piece, place = begin + at % piece;
        if (split >= splits || place >= counts[split]) continue;
        const uint64_t key = from[int64_t{split} * most + place];
        if (key < least) continue;
        best.offer(key);
        reaches |= at % piece == piece - 1;
      }
      __syncthreads();
      if (count + kAtOnce > arguments.capacity) keep_best(best, room);
      __syncthreads();
    }
    begin += piece;
    more = __syncthreads_or(static_cast<int>(reaches)) != 0;
  }
  const uint64_t worst = count > most ? least_of_best(best.keys, count, most, room) : 0;
  for (int k = own; k < count; k += kThreads) {
    if (best.keys[k] < worst) continue;
    const auto index = static_cast<uint32_t>(index_of(best.keys[k]));
    atomicOr(&map[index / 32], 1u << (index % 32));
  }
  __syncthreads();
  // Each thread writes the indices of some consecutive words behind those of the threads before.
  const int words = (arguments.words + kThreads - 1) / kThreads;
  int bits = 0;
  for (int word = own * words; word < min((own + 1) * words, arguments.words); ++word) bits += __popc(map[word]);
  int place = bits;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, place, step);
    if (lane_id() >= step) place += other;
  }
  if (lane_id() == 31) of_warps[warp_id()] = place;
  __syncthreads();
  place -= bits;
  int kept = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    if (warp < warp_id()) place += of_warps[warp];
    kept += of_warps[warp];
  }
  const auto& entry = entry_of(arguments.list, arguments.first + blockIdx.x);
  int32_t* to = row_of(arguments.to, entry.sequence.first_row + arguments.first + blockIdx.x - entry.begin);
  for (int word = own * words; word < min((own + 1) * words, arguments.words); ++word)
    for (uint32_t left = map[word]; left != 0; left &= left - 1)
      to[place++] = word * 32 + __ffs(static_cast<int>(left)) - 1;
  for (int64_t k = kept + own; k < arguments.to.columns; k += kThreads) to[k] = -1;
}

// indices: what an index is below.
Status launch_best(const SelectionStep& step, const BestOfSplits& from, MatrixView<int32_t> to, int64_t indices,
                   Stream stream) {
  int capacity = 2 * kAtOnce;
  while (capacity < from.most + kAtOnce) capacity *= 2;
  // In whole 4 KB, so that the launch of one step is mostly that of the next.
  const auto words = static_cast<int>(divided_up(indices, 32 * kThreads) * kThreads);
  const Arguments arguments{step.list, step.first, static_cast<int>(step.splits), from, to, capacity, words};
  return launch(index_best, "sm90_index_best", dim3(blocks(step.count)), kThreads,
                int64_t{capacity} * 8 + int64_t{words} * 4, stream, arguments, kEarly);
}

}  // namespace

Status sm90_index_best(const SelectionStep& step, Stream stream) {
  DI_CHECK(step.splits <= kThreads, "a split a thread");
  DI_RETURN_IF_ERROR(launch_best(step, step.rows, step.op.selected, step.visible, stream));
  if (step.op.pool != IndexTopk::Pool::kMake) return {};
  return launch_best(step, step.blocks, step.op.candidates, divided_up(step.visible, step.op.candidate_block), stream);
}

}  // namespace deepinfer::cuda
