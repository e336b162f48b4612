// One block a row of a sequence.
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
  StoreIndexKeys op;
  SequenceList<StoreSequence> list;
};

__global__ void __launch_bounds__(kRecordThreads) store_index_keys(const Arguments arguments) {
  follow_previous_kernels();
  const StoreIndexKeys& op = arguments.op;
  const auto& entry = entry_of(arguments.list, blockIdx.x);
  const int64_t i = blockIdx.x - entry.begin, record = entry.sequence.record + i, width = op.key.columns;
  auto* row = reinterpret_cast<bf16*>(dynamic_shared());
  norm_row(row_of(op.key, entry.sequence.first_row + i), op.norm, width, op.eps, row);
  rotate_row(row, width, record * op.ratio, op.table);
  encode_index(row, width, reinterpret_cast<uint8_t*>(record_of(entry.sequence.destination, record)));
}

}  // namespace

Status any_store_index_keys(const StoreIndexKeys& op, const SequenceList<StoreSequence>& list, Stream stream) {
  DI_CHECK(op.key.columns % kIndexGroup == 0, "index keys are encoded in groups of 32");
  const Arguments arguments{op, list};
  return launch(store_index_keys, "any_store_index_keys", dim3(blocks(list.rows)), kRecordThreads, op.key.columns * 2,
                stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
