// One block a row of a sequence; rows that a later one of the step would overwrite stay out.
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/records/records.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = 128;

struct Arguments {
  CommitWindow op;
  SequenceList<WindowCommit> list;
};

__global__ void __launch_bounds__(kThreads) commit_window(const Arguments arguments) {
  follow_previous_kernels();
  const auto& entry = entry_of(arguments.list, blockIdx.x);
  const WindowCommit& sequence = entry.sequence;
  const int64_t i = blockIdx.x - entry.begin;
  if (i < sequence.rows - sequence.ring.slots) return;
  const uint8_t* from = row_of(arguments.op.records, sequence.first_row + i);
  auto* to = reinterpret_cast<uint8_t*>(record_of(sequence.ring, sequence.position + i));
  for (int64_t at = threadIdx.x; at < arguments.op.records.columns; at += kThreads) to[at] = from[at];
}

}  // namespace

Status any_commit_window(const CommitWindow& op, const SequenceList<WindowCommit>& list, Stream stream) {
  const Arguments arguments{op, list};
  return launch(commit_window, "any_commit_window", dim3(blocks(list.rows)), kThreads, 0, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
