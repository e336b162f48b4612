// Two kernels, one block a row of a sequence each: odd rows are pooled with their even partners; then even rows go to
// the ring, from which an odd first row has been read by then.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/records/record_row.cuh"
#include "backends/cuda/kernels/records/records.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

struct Arguments {
  CompressPairs op;
  SequenceList<CompressSequence> list;
};

__global__ void __launch_bounds__(kRecordThreads) pool_pairs(const Arguments arguments) {
  follow_previous_kernels();
  const CompressPairs& op = arguments.op;
  const auto& entry = entry_of(arguments.list, blockIdx.x);
  const CompressSequence& sequence = entry.sequence;
  const int64_t i = blockIdx.x - entry.begin, position = sequence.position + i, row = sequence.first_row + i;
  if (position % 2 == 0) return;
  const int64_t width = op.latent.columns;
  const float *gate0, *value0;
  if (i > 0) {
    gate0 = row_of(op.gate, row - 1);
    value0 = row_of(op.value, row - 1);
  } else {
    gate0 = reinterpret_cast<const float*>(record_of(sequence.half_groups, position - 1));
    value0 = gate0 + width;
  }
  const float* gate1 = row_of(op.gate, row);
  const float* value1 = row_of(op.value, row);
  auto* pooled = reinterpret_cast<bf16*>(dynamic_shared());
  for (int64_t c = threadIdx.x; c < width; c += kRecordThreads) {
    const float top = fmaxf(gate0[c], gate1[c]);
    const float e0 = expf(gate0[c] - top), e1 = expf(gate1[c] - top), sum = e0 + e1;
    pooled[c] = round_to_bf16(e0 / sum * value0[c] + e1 / sum * value1[c]);
  }
  __syncthreads();
  const int64_t group = sequence.first_group + position / 2 - sequence.position / 2;
  norm_row(pooled, op.norm, width, op.eps, row_of(op.latent, group));
}

__global__ void __launch_bounds__(kRecordThreads) keep_half_groups(const Arguments arguments) {
  follow_previous_kernels();
  const CompressPairs& op = arguments.op;
  const auto& entry = entry_of(arguments.list, blockIdx.x);
  const CompressSequence& sequence = entry.sequence;
  const int64_t i = blockIdx.x - entry.begin, position = sequence.position + i, row = sequence.first_row + i;
  if (position % 2 != 0) return;
  const int64_t slots = sequence.half_groups.slots, turn = slots % 2 == 0 ? slots : 2 * slots;
  if (i + turn < sequence.rows) return;  // a later even row of the step takes this place
  const int64_t width = op.latent.columns;
  auto* to = reinterpret_cast<float*>(record_of(sequence.half_groups, position));
  for (int64_t c = threadIdx.x; c < width; c += kRecordThreads) {
    to[c] = row_of(op.gate, row)[c];
    to[width + c] = row_of(op.value, row)[c];
  }
}

}  // namespace

Status any_compress_pairs(const CompressPairs& op, const SequenceList<CompressSequence>& list, Stream stream) {
  DI_CHECK(op.value.columns == op.latent.columns && op.gate.columns == op.latent.columns, "all rows have one width");
  const Arguments arguments{op, list};
  DI_RETURN_IF_ERROR(launch(pool_pairs, "any_compress_pairs, pooling", dim3(blocks(list.rows)), kRecordThreads,
                            op.latent.columns * 2, stream, arguments, kEarly));
  return launch(keep_half_groups, "any_compress_pairs, half groups", dim3(blocks(list.rows)), kRecordThreads, 0, stream,
                arguments, kEarly);
}

}  // namespace deepinfer::cuda
