// One cluster a row.  Scores: each block of the cluster takes as many slots and all channels.  Values: each block takes
// as many channels and all slots, so that a sum is one chain whatever the cluster.  In between the blocks exchange the
// largest scores, then the numerators.  A block decodes what it needs of the records itself, once for each half.
//
// The 16 warps decode records into a ring of stages in shared memory; the first one or two warpgroups multiply what has
// been decoded at the same time.  Records lie in a stage as rows of 128 bytes, 64 channels, with the swizzle of 128
// bytes: for the scores rows of B along K, for the values rows of K, the transposed operand.
//
// The steps, a file each: sm90_begin_row, sm90_scores, sm90_softmax, sm90_values, sm90_output; sm90_records decodes for
// both halves, sm90_shape says what a block has.  Here they are put in order, with the barriers between them.
#include <cuda_runtime_api.h>

#include <cmath>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/attention/sm90_begin_row.cuh"
#include "backends/cuda/kernels/attention/sm90_output.cuh"
#include "backends/cuda/kernels/attention/sm90_scores.cuh"
#include "backends/cuda/kernels/attention/sm90_shape.cuh"
#include "backends/cuda/kernels/attention/sm90_softmax.cuh"
#include "backends/cuda/kernels/attention/sm90_values.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace row_attention {
namespace {

// Everything behind begin_row.  kMultiplies: the warpgroups that multiply.
template <typename S, bool kMultiplies>
__device__ __forceinline__ void attend(const Arguments& arguments, int64_t q_row, const Row& row, std::byte* memory,
                                       uint32_t arrived) {
  const Place<S> place = place_of<S>(row, memory);
  const int own = place.own;
  float scores[S::kGroupSlots / 2] = {};
  multiply_scores<S, kMultiplies>(scores, place, row);

  ValueStages<S> ring(place, row);
#pragma unroll
  for (int stage = 0; stage < S::kValuesAhead; ++stage) ring.load(stage, stage);
  if (own == 0) barrier_arrive_expect(arrived, bytes_of_others(place));
  if (kMultiplies) wgmma_wait<0>();
  __syncthreads();  // all stages have been read
  if (kMultiplies) share_maxima(scores, arguments.scale, place, row);
  cluster_arrive();
#pragma unroll
  for (int stage = 0; stage < S::kDecodedAhead; ++stage) ring.decode(stage, stage % S::kValuesAhead);
  cluster_wait();  // q has been read everywhere
  if (kMultiplies) store_numerators(scores, place, row);
  __syncthreads();
  if (own == kThreads - 1 && place.own_slots > 0) send_numerators(place, arrived);
  if (kMultiplies || own >= kThreads - kHeads) barrier_wait(arrived, 0);
  if (own >= kThreads - kHeads) store_denominator(arguments.op.sink, place);

  float values[S::kGroupChannels / 2] = {};
  multiply_values<S, kMultiplies>(values, ring, place, row);
  if (kMultiplies) wgmma_wait<0>();
  __syncthreads();  // the denominators are there
  cluster_arrive();
  if (kMultiplies) store_output(values, arguments.op.o, q_row, place);
  cluster_wait();  // what the others fetch from here has arrived
}

template <typename S>
__global__ void __launch_bounds__(kThreads, 1) attention(const Arguments arguments) {
  follow_previous_kernels();
  extern __shared__ std::byte unaligned[];
  __shared__ uint64_t barrier;
  std::byte* const memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const uint32_t arrived = shared_address(&barrier);
  if (threadIdx.x == 0) {
    barrier_init(arrived, 1);
    barrier_fence_init();
  }
  int64_t q_row = 0;
  const Row row = begin_row(arguments, blockIdx.x / S::kBlocks, shared_address(memory) + S::kQuery,
                            reinterpret_cast<const uint8_t**>(memory + S::kRecords), q_row);
  if (uniform(static_cast<int>(threadIdx.x) / 128) < S::kGroups) {
    attend<S, true>(arguments, q_row, row, memory, arrived);
  } else {
    attend<S, false>(arguments, q_row, row, memory, arrived);
  }
}

template <typename S>
Status launch_shape(const Arguments& arguments, Stream stream) {
  return launch(attention<S>, "sm90_attention", dim3(blocks(arguments.list.rows * S::kBlocks)), kThreads, S::kBytes,
                stream, arguments, {.cluster = S::kBlocks, .early = true});
}

// Blocks, groups, slots, stages, slots of a stage, ahead.
using FewRows = Shape<8, 1, 96, 8, 96, 8, 8>;
using SomeRows = Shape<4, 2, 96, 4, 64, 2, 2>;
using ManyRows = Shape<2, 2, 160, 2, 64, 1, 1>;
using ManyWideRows = Shape<2, 2, 176, 2, 64, 1, 1>;

}  // namespace
}  // namespace row_attention

Status sm90_attention(const SparseAttention& op, const SequenceList<AttentionSequence>& list, int64_t slots,
                      AttentionSpread spread, Stream stream) {
  using namespace row_attention;
  DI_CHECK(op.heads == kHeads && op.head_dim == kHeadDim && slots <= kSm90AttentionSlots, "a step that this kernel takes");
  if (list.rows == 0) return {};
  const Arguments arguments{op, list, static_cast<float>(std::pow(kHeadDim, -0.5)) * kStoredFactor};
  switch (spread) {
    case AttentionSpread::kWide:
      return launch_shape<FewRows>(arguments, stream);
    case AttentionSpread::kMiddle:
      return launch_shape<SomeRows>(arguments, stream);
    case AttentionSpread::kNarrow:
      return slots <= ManyRows::kSlots ? launch_shape<ManyRows>(arguments, stream)
                                       : launch_shape<ManyWideRows>(arguments, stream);
  }
  return {};
}

}  // namespace deepinfer::cuda
