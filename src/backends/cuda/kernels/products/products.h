// Products with weights as the checkpoint stores them, ops/linear.h (Matmul, GroupedMatmul), for every GPU from SM80
// on. Operands in device memory; weights, scales' rows of 32 columns apart, and rows of x on 16-byte boundaries.
//
// Order of a sum, for every number of rows and every format: K is cut into pieces of 64 columns, the last one filled up
// with zeros.  The P pieces are dealt to product_parts(k) parts, part p having pieces [p P / parts, (p + 1) P / parts).
// In a part, mma.sync adds 16 columns at a time, starting from zero, pieces in ascending order; step s of the four of a
// piece adds the columns 16 t + 4 s + i, t and i from 0 to 3 (so that a lane's columns of a piece are 16 neighbours).
// The sums of the parts are added in ascending order.  Weights are the M side of the instruction, rows of x the N side.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/linear.h"

namespace deepinfer::cuda {

constexpr int64_t kProductPiece = 64;
inline int64_t product_pieces(int64_t k) {
  return (k + kProductPiece - 1) / kProductPiece;
}
// The least power of two, at most 16, that leaves a part no more than 5 pieces.
inline int product_parts(int64_t k) {
  int parts = 1;
  while (parts < 16 && product_pieces(k) > 5 * parts) parts *= 2;
  return parts;
}

struct Product {
  MatrixView<const bf16> x;  // [rows, groups * k]
  LinearWeight weight;       // [n, k]
  int groups = 1;            // group g of the columns meets rows [g n / groups, (g + 1) n / groups)
  MatrixView<bf16> y;        // [rows, n]: the sum rounded once.  Exactly one of y and y32 has data
  MatrixView<float> y32;     // [rows, n]
};

// The bits are the same whichever takes a row.
constexpr int64_t kProductFewRows = 32;
Status any_product_few(const Product& product, Stream stream);   // at most kProductFewRows rows
Status any_product_many(const Product& product, Stream stream);  // any number, made for more
Status any_product(const Product& product, Stream stream);       // the one that fits

}  // namespace deepinfer::cuda
