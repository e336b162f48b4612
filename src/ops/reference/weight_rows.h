// Weights as stored in the checkpoint, read back to fp32 row by row.
#pragma once

#include <vector>

#include "ops/linear.h"

namespace deepinfer::reference {

void decode_weight_row(const LinearWeight& weight, int64_t row, float* out);  // out [k]; exact
std::vector<float> to_floats(const bf16* x, int64_t count);

}  // namespace deepinfer::reference
