// Products with a dense FP8 weight, y = x W^T (ops/linear.h, Matmul), on the device.
//
// Order of a sum, for every number of rows: the P pieces of 64 columns are dealt to dense_parts(P) parts, part p having
// pieces [p P / parts, (p + 1) P / parts); in a part the tensor core adds 16 columns at a time in ascending order,
// starting from zero; the sums of the parts are added in ascending order.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace deepinfer::cuda {

// The least power of two, at most 16, that leaves a part no more than 5 pieces.
constexpr int dense_parts(int64_t pieces) {
  int parts = 1;
  while (parts < 16 && pieces > 5 * parts) parts *= 2;
  return parts;
}

// A weight in strip order (layout/strip_order.h) on the device.
struct DenseWeight {
  const uint8_t* data = nullptr;
  const uint8_t* scales = nullptr;
  int64_t n = 0;  // outputs
  int64_t k = 0;  // a multiple of 32
};

struct DenseProduct {
  const bf16* x = nullptr;  // [rows, k], 16-byte aligned rows
  int64_t rows = 0;
  int64_t x_stride = 0;  // elements, a multiple of 8
  DenseWeight weight;
  bf16* y = nullptr;     // [rows, n]: the sum rounded once.  Exactly one of y and y32
  float* y32 = nullptr;  // [rows, n]
  int64_t y_stride = 0;  // elements
};

// For at most kDenseDecodeRows rows and kDenseDecodeColumns columns of K; SM90.  Asks for the first weights while the
// kernels before it on the stream run, where they allow it.
constexpr int64_t kDenseDecodeRows = 8;
constexpr int64_t kDenseDecodeColumns = 8192;
Status sm90_dense_decode(const DenseProduct& product, Stream stream);

}  // namespace deepinfer::cuda
