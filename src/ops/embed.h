// Token embedding and the start of the residual stream (specs/v41-model.md 2.1 steps 2-4).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

// Copies row ids[i] of the table into each of the `copies` streams of row i and sets pre = (1, 0, ..., 0).
// With copies = 1 and no pre it is a plain gather of rows (Markov embedding).
struct EmbedTokens {
  MatrixView<const bf16> table;  // [vocabulary, d]
  const int32_t* ids = nullptr;  // [rows], each in [0, vocabulary)
  int copies = 4;
  MatrixView<bf16> streams;  // X [rows, copies * d], copy-major
  MatrixView<float> pre;     // [rows, copies], or no data
};

}  // namespace deepinfer
