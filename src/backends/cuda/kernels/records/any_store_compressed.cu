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
  StoreCompressed op;
  SequenceList<StoreSequence> list;
};

__global__ void __launch_bounds__(kRecordThreads) store_compressed(const Arguments arguments) {
  follow_previous_kernels();
  const StoreCompressed& op = arguments.op;
  const auto& entry = entry_of(arguments.list, blockIdx.x);
  const int64_t i = blockIdx.x - entry.begin, record = entry.sequence.record + i, width = op.latent.columns;
  auto* row = reinterpret_cast<bf16*>(dynamic_shared());
  load_row(row_of(op.latent, entry.sequence.first_row + i), width, row);
  rotate_row(row, width, record * op.ratio, op.table);
  encode_main_kv(row, width, reinterpret_cast<uint8_t*>(record_of(entry.sequence.destination, record)));
}

}  // namespace

Status any_store_compressed(const StoreCompressed& op, const SequenceList<StoreSequence>& list, Stream stream) {
  DI_CHECK(op.latent.columns % kMainKvGroup == 0, "compressed rows are encoded in groups of 16");
  const Arguments arguments{op, list};
  return launch(store_compressed, "any_store_compressed", dim3(blocks(list.rows)), kRecordThreads,
                op.latent.columns * 2, stream, arguments, kEarly);
}

}  // namespace deepinfer::cuda
