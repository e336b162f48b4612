// Engram lookup (specs/v41-model.md 2.8).  The hash is integer work of the host plan (models/deepseek_v41/engram_hash.h);
// the operations here gather table rows and mix the result into the stream.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/matrix.h"
#include "ops/hyper_connection.h"

namespace deepinfer {

// The table as stored: e4m3 [table_rows, width] with e8m0 [table_rows, width / 32].  Rows are read where they lie.  A row
// outside [0, rows) reads as 0.
struct EngramTable {
  const uint8_t* weight = nullptr;
  const uint8_t* scale = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  // Lies in Ops::memory() or in Ops::reachable_host_memory(), on 16-byte boundaries; else anywhere in the host's
  // memory, such as a mapped file, where a backend with memory of its own gathers by the processor.
  bool reachable = false;
};

struct EngramGather {
  EngramTable table;
  const int64_t* row = nullptr;        // [rows, lookups]
  int lookups = 0;                     // rows of the table per token
  MatrixView<bf16> e;                  // [rows, lookups * width]: bf16(value * scale), which is exact; no FP8 rounding
};

// Copy j of a row that is not dead, all in fp32 (the products in this order):
//   r = rsqrt(mean(X_j^2) + eps) * rsqrt(mean(key_j^2) + eps);  dot = sum_c (X_j[c] * (q_j[c] * k_j[c])) * key_j[c]
//   a = (dot * r) * d^-0.5;  g = sigmoid(copysign(sqrt(max(|a|, 1e-6)), a));  X_j = bf16(X_j + g * value)
struct EngramMix {
  MatrixView<const bf16> kv;           // [rows, (c + 1) * d]: wkv e; keys of the c copies, then the value
  const bf16* query_weight = nullptr;  // [c, d]
  const bf16* key_weight = nullptr;    // [c, d]
  float eps = 0;
  const uint8_t* dead = nullptr;       // [rows] or null: 1 keeps the stream (image positions)
  MatrixView<bf16> streams;            // X [rows, c*d], updated in place
};

}  // namespace deepinfer
