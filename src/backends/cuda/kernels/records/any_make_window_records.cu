// One block a row.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/records/record_row.cuh"
#include "backends/cuda/kernels/records/records.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

__global__ void __launch_bounds__(kRecordThreads) make_window_records(const MakeWindowRecords op) {
  follow_previous_kernels();
  auto* row = reinterpret_cast<bf16*>(dynamic_shared());
  const int64_t m = blockIdx.x, width = op.kv.columns;
  norm_row(row_of(op.kv, m), op.norm, width, op.eps, row);
  rotate_row(row, width, op.position[m], op.table);
  encode_fp8(row, width, row_of(op.records, m));
}

}  // namespace

Status any_make_window_records(const MakeWindowRecords& op, Stream stream) {
  DI_CHECK(op.kv.columns % kFp8Group == 0 && op.records.columns == fp8_record_bytes(op.kv.columns),
           "records are FP8 rows of the key's width");
  return launch(make_window_records, "any_make_window_records", dim3(blocks(op.kv.rows)), kRecordThreads,
                op.kv.columns * 2, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
