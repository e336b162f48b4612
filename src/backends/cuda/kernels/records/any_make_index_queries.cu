// One block a head of a row.
#include "backends/cuda/device/dynamic_shared.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/records/record_row.cuh"
#include "backends/cuda/kernels/records/records.h"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

__global__ void __launch_bounds__(kRecordThreads) make_index_queries(const MakeIndexQueries op) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, head = blockIdx.y, width = op.head_dim;
  auto* row = reinterpret_cast<bf16*>(dynamic_shared());
  load_row(row_of(op.q, m) + head * width, width, row);
  rotate_row(row, width, op.position[m], op.table);
  encode_index(row, width, row_of(op.records, m) + head * (width / 2 + width / kIndexGroup));
}

}  // namespace

Status any_make_index_queries(const MakeIndexQueries& op, Stream stream) {
  DI_CHECK(op.head_dim % kIndexGroup == 0 && op.q.columns == int64_t{op.heads} * op.head_dim &&
               op.records.columns == op.heads * index_record_bytes(op.head_dim),
           "q is [rows, heads * head_dim], records one record a head");
  return launch(make_index_queries, "any_make_index_queries", dim3(blocks(op.q.rows), static_cast<unsigned>(op.heads)),
                kRecordThreads, op.head_dim * 2, stream, op, kEarly);
}

}  // namespace deepinfer::cuda
