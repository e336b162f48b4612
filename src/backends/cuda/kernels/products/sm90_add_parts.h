// Adds the sums of a product's parts (products.h) that the kernel for many rows has left in memory.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"

namespace deepinfer::cuda {

struct PartSums {
  const float* sums;  // [parts][rows][n]
  int64_t rows, n;
  int parts;
};
// In ascending order, into y, rounded once, or y32 where it is not null; y_stride: from a row of either to the next.
Status sm90_add_parts(const PartSums& parts, uint16_t* y, float* y32, int64_t y_stride, Stream stream);

}  // namespace deepinfer::cuda
