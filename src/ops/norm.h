// RMS norm (specs/v41-model.md section 2): y = bf16(w * (x * rsqrt(mean(x^2) + eps))), fp32 until the one cast.
#pragma once

#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

struct RmsNorm {
  MatrixView<const bf16> x;      // [rows, d]
  const bf16* weight = nullptr;  // [d]
  float eps = 0;
  MatrixView<bf16> y;            // [rows, d]; may be x itself
  bool quantize = false;         // y is rounded once more, as QuantizeActivation does
};

}  // namespace deepinfer
