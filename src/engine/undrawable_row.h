// What is wrong with a row of logits from which no token could be drawn.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "ops/sample.h"
#include "tensor/matrix.h"
#include "tensor/memory.h"

namespace deepinfer {

// Whether the sampler's result for a row is a token of the model's: a key that is not finite won by overflow.
bool drawn(const SampledRow& row);

// kCorruptFile naming the position and the first bad logit; kInvalidArgument where the logits are good and the
// request's own masks leave no token.  logits: one row, in `memory`.
Status undrawable(Memory& memory, MatrixView<const float> logits, int64_t position, bool masked);

}  // namespace deepinfer
