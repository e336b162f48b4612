// How rows of x lie in scratch memory that are the B operand of the kernel for many rows: in the order in which shared
// memory has them, so that bulk copies bring them there.  For each group of the product and each piece of 64 columns, the
// groups of 8 rows follow each other, 1,024 bytes each with 128-byte swizzle (device/wgmma.cuh), columns as paired() has
// them: word t of the 16-byte chunk 2 s + i is pair i of the columns [16 t + 4 s, 16 t + 4 s + 4).
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

constexpr int kImageRows = 8;
constexpr int kImageGroupBytes = 1024;

// Of row group `rows_at` and a piece, in bytes.
__device__ __forceinline__ int64_t image_place(int group, int pieces, int piece, int row_groups, int rows_at) {
  return ((int64_t{group} * pieces + piece) * row_groups + rows_at) * kImageGroupBytes;
}

}  // namespace deepinfer::cuda
