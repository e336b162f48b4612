// The rotation of one head, also part of the steps that store records.
#pragma once

#include <cstdint>

#include "ops/rope.h"

namespace deepinfer::reference {

// Rotates the last 2 * table.pairs of `channels` values in place; inverse: by the negative angle.
void rotate(bf16* x, int64_t channels, int64_t position, const RopeTable& table, bool inverse = false);

}  // namespace deepinfer::reference
