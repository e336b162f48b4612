// The RMS norm of one row, also part of the fused steps.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace deepinfer::reference {

// 1 / sqrt(mean(x^2) + eps), squares added in index order.
float inverse_rms(const float* x, int64_t count, float eps);
void rms_norm_row(const bf16* x, const bf16* weight, int64_t count, float eps, bf16* y);  // y may be x

}  // namespace deepinfer::reference
