// mma.sync: the tensor-core instruction of one warp (SM80), D[16, 8] += A[16, 16] B[8, 16]^T, bf16 in, fp32 out.
// On SM90 its bits are those of wgmma (tests/backends/cuda/tensor_core_bits_test.cpp).
//
// Fragments of lane l: d[2 i + c] is row l / 4 + 8 i, column 2 (l % 4) + c; a[2 h + i] row l / 4 + 8 i, columns
// 8 h + 2 (l % 4) and the next; b[h] row l / 4 of B, columns as a.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit values: lane l has of each the columns 2 (l % 4) and the next of row l / 4, and names row
// l % 8 of matrix l / 8 by its shared address.  Or transposed, so that a row in shared memory is a column of the matrix.
__device__ __forceinline__ void store_matrices(uint32_t row_address, uint32_t m0, uint32_t m1, uint32_t m2,
                                               uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(row_address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}
__device__ __forceinline__ void store_matrices_transposed(uint32_t row_address, uint32_t m0, uint32_t m1, uint32_t m2,
                                                          uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(row_address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}

}  // namespace deepinfer::cuda
