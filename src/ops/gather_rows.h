// Row gather: keeps the rows of a step that go on to the next layer or to the head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/matrix.h"

namespace deepinfer {

// Row i of y = row index[i] of x.  y may be x itself where index is strictly ascending (compaction in place).
struct GatherRows {
  MatrixView<const std::byte> x;   // [x rows, bytes]
  const int32_t* index = nullptr;  // [y.rows], each in [0, x.rows)
  MatrixView<std::byte> y;         // [y.rows, bytes]
};

}  // namespace deepinfer
