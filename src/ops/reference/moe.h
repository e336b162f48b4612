// The hidden layer of an expert, looked at by tests on its own.
#pragma once

#include "ops/moe.h"

namespace deepinfer::reference {

// FP8( (silu(min(g, limit)) * clamp(u, +-limit)) * weight ) as the bf16 input of w2.  g, u, out [count], count a
// multiple of 32; weight 1 is that of the shared expert (a product with 1 is exact).
void expert_hidden_row(const bf16* g, const bf16* u, int64_t count, float limit, float weight, bf16* out);

}  // namespace deepinfer::reference
