// Matrix products: y = x W^T with the weight as stored in the checkpoint (specs/v41-model.md sections 2, 5, 6.1).
//
// All activations that enter a product are bf16.  A quantised linear first rounds its input with quantize_activation:
// an e4m3 value times a power of two is exact in bf16, and so are the dequantised FP8 and FP4 weights, hence one fp32
// accumulation over all of K needs no rescaling.  Backends differ from the reference by the order of summation only.
//
// Exactness: element (m, n) depends on row m of x and row n of W only.  The order of its sum is a function of K and of
// the backend's path, never of the number of rows, the tile or the thread.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer {

// One weight as stored: rows are outputs.  A view into the mapped checkpoint.
struct LinearWeight {
  enum class Format : uint8_t {
    kFp8,   // data: e4m3 [n, k]; scale: e8m0 [ceil(n/32), ceil(k/32)]
    kFp4,   // data: two e2m1 a byte, low nibble = even k, [n, k/2]; scale: e8m0 [n, k/32]
    kBf16,  // data: bf16 [n, k]
  };
  Format format = Format::kBf16;
  int64_t n = 0;
  int64_t k = 0;  // a multiple of 32
  const void* data = nullptr;
  const uint8_t* scale = nullptr;

  bool empty() const { return data == nullptr; }
  // Rows [first, first + count) as a weight of their own; first is a multiple of 32 where the format is FP8.
  LinearWeight rows(int64_t first, int64_t count) const;
  int64_t bytes() const;  // data and scales
};

// FP8 rounding of a linear's input: per row and 32 columns, section 6.1; the value read back is exact in bf16.
struct QuantizeActivation {
  MatrixView<const bf16> x;  // [rows, k]
  MatrixView<bf16> y;        // [rows, k]; may be x itself
};

// y = x W^T, accumulated in fp32.
struct Matmul {
  MatrixView<const bf16> x;  // [rows, k]
  LinearWeight weight;       // [n, k]
  MatrixView<bf16> y;        // [rows, n]: the sum rounded once.  Exactly one of y and y32 has data
  MatrixView<float> y32;     // [rows, n]: the sum itself
};

// Block-diagonal product of the output projection (wo_a): group g of the columns meets rows [g n/groups, (g+1) n/groups).
struct GroupedMatmul {
  MatrixView<const bf16> x;  // [rows, groups * k]
  LinearWeight weight;       // [n, k], n a multiple of groups * 32
  int groups = 1;
  MatrixView<bf16> y;        // [rows, n]
  bool quantize = false;     // y is rounded once more, as QuantizeActivation does
};

}  // namespace deepinfer
