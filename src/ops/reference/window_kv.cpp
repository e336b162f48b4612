#include "ops/window_kv.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/reference/norm.h"
#include "ops/reference/reference.h"
#include "ops/reference/rope.h"
#include "tensor/formats.h"

namespace deepinfer::reference {

void make_window_records(const MakeWindowRecords& op) {
  const int64_t width = op.kv.columns;
  DI_CHECK(op.records.columns == fp8_record_bytes(width), "records are FP8 rows of the key's width");
  std::vector<bf16> row(static_cast<size_t>(width));
  for (int64_t m = 0; m < op.kv.rows; ++m) {
    rms_norm_row(op.kv.row(m), op.norm, width, op.eps, row.data());
    rotate(row.data(), width, op.position[m], op.table);
    encode_fp8_row(row.data(), width, op.records.row(m));
  }
}

void commit_window(const CommitWindow& op) {
  for (int s = 0; s < op.sequence_count; ++s) {
    const WindowCommit& sequence = op.sequences[s];
    DI_CHECK(sequence.ring.record_bytes == op.records.columns, "the ring holds records of the step's size");
    for (int64_t i = std::max<int64_t>(0, sequence.rows - sequence.ring.slots); i < sequence.rows; ++i) {
      std::memcpy(sequence.ring.record(sequence.position + i), op.records.row(sequence.first_row + i),
                  static_cast<size_t>(op.records.columns));
    }
  }
}

}  // namespace deepinfer::reference
