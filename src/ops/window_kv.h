// Window KV records (specs/v41-model.md 2.3, 3.1, 6.2): 512 e4m3 + 16 E8M0 bytes a position.
#pragma once

#include <cstdint>

#include "ops/rope.h"
#include "ops/sequence.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

// record = FP8(RoPE(RMSNorm(kv))).  Written to the step's own buffer: attention reads this step's rows there and older
// rows in the ring; commit_window then moves them into the ring.
struct MakeWindowRecords {
  MatrixView<const bf16> kv;           // [rows, head_dim]: wkv x
  const bf16* norm = nullptr;          // [head_dim]
  float eps = 0;
  const int64_t* position = nullptr;   // [rows]
  RopeTable table;
  MatrixView<uint8_t> records;         // [rows, fp8_record_bytes(head_dim)]
  // kv stays as it is until sparse_attention, the first to read the records: they may be made beside what comes between.
  bool attention_follows = false;
};

struct WindowCommit {                  // of one sequence
  Ring ring;
  int64_t first_row = 0;               // of records
  int64_t rows = 0;
  int64_t position = 0;                // of first_row
};

// Copies the last min(rows, slots) records of each sequence into its ring.
struct CommitWindow {
  MatrixView<const uint8_t> records;   // [rows, record bytes]
  const WindowCommit* sequences = nullptr;
  int sequence_count = 0;
};

}  // namespace deepinfer
