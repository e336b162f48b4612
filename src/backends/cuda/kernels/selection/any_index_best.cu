// One block a row: the best of its splits, in ascending order of the index.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/selection/best_keys.cuh"
#include "backends/cuda/kernels/selection/selection.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = kSelectionThreads;

struct Arguments {
  SequenceList<IndexSequence> list;
  int64_t first, splits;
  BestOfSplits from;
  MatrixView<int32_t> to;
};

__global__ void __launch_bounds__(kThreads) index_best(const Arguments arguments) {
  follow_previous_kernels();
  __shared__ int count;
  __shared__ uint64_t threshold;
  BestKeys best{reinterpret_cast<uint64_t*>(dynamic_shared()), &count, &threshold,
                best_keys_capacity(arguments.from.most), static_cast<int>(arguments.from.most)};
  const int own = static_cast<int>(threadIdx.x);
  best.start();
  __syncthreads();
  for (int64_t s = 0; s < arguments.splits; ++s) {
    const int64_t split = int64_t{blockIdx.x} * arguments.splits + s;
    const uint64_t* keys = arguments.from.keys + split * arguments.from.most;
    const int there = arguments.from.counts[split];
    for (int first = 0; first < there; first += kThreads) {
      best.offer(first + own < there ? keys[first + own] : 0);
      __syncthreads();
      best.settle();
      __syncthreads();
    }
  }
  best.cut(count);
  // What is left of a key, the complement of the index, sorts the other way round.
  const int kept = count;
  int sorted = 2;
  while (sorted < kept) sorted *= 2;
  for (int i = own; i < sorted; i += kThreads) best.keys[i] = i < kept ? best.keys[i] & 0xffffffffu : 0;
  sort_descending(best.keys, sorted);
  const auto& entry = entry_of(arguments.list, arguments.first + blockIdx.x);
  int32_t* to = row_of(arguments.to, entry.sequence.first_row + arguments.first + blockIdx.x - entry.begin);
  for (int64_t i = own; i < arguments.to.columns; i += kThreads) to[i] = i < kept ? index_of(best.keys[i]) : -1;
}

Status launch_best(const SelectionStep& step, const BestOfSplits& from, MatrixView<int32_t> to, Stream stream) {
  const Arguments arguments{step.list, step.first, step.splits, from, to};
  return launch(index_best, "any_index_best", dim3(blocks(step.count)), kThreads, best_keys_capacity(from.most) * 8,
                stream, arguments, kEarly);
}

}  // namespace

Status any_index_best(const SelectionStep& step, Stream stream) {
  DI_RETURN_IF_ERROR(launch_best(step, step.rows, step.op.selected, stream));
  if (step.op.pool != IndexTopk::Pool::kMake) return {};
  return launch_best(step, step.blocks, step.op.candidates, stream);
}

}  // namespace deepinfer::cuda
