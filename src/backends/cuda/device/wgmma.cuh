// wgmma: the SM90 tensor-core instruction of a warpgroup (128 threads), D[64, N] += A[64, K] B[N, K]^T in fp32.
// A comes from shared memory or registers, B from shared memory; D stays in registers (PTX ISA, "wgmma.mma_async").
//
// Fragments.  Thread t of the warpgroup, warp w = t / 32, lane l = t % 32:
//   D: d[4 j + 2 i + c] is row 16 w + l / 4 + 8 i, column 8 j + 2 (l % 4) + c
//   A in registers (bf16 pairs): a[2 h + i] is row 16 w + l / 4 + 8 i, columns 8 h + 2 (l % 4) and the next
#pragma once

#include <cstdint>

#include "backends/cuda/device/wgmma_shapes.cuh"

namespace deepinfer::cuda {

// Between writes to registers or shared memory and the first wgmma that reads them.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
// Waits until at most Pending committed groups are unfinished.
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
}
// Describes an operand in shared memory whose rows run along K, without swizzle: core matrices of 8 rows of 16 bytes,
// each 128 bytes in one piece.  k_stride: bytes from a core matrix to the next along K; row_stride: to the next 8 rows.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address, uint32_t k_stride, uint32_t row_stride) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(k_stride >> 4) << 16 |
         static_cast<uint64_t>(row_stride >> 4) << 32;
}

// The same with 128-byte swizzle: rows of 128 bytes, 8 of them in 1,024 bytes, 16-byte pieces of row r at (piece ^ r).
// address: 1,024-byte aligned but for steps of 32 bytes along K.  row_stride: bytes to the next 8 rows.
__device__ __forceinline__ uint64_t swizzled_descriptor(uint32_t address, uint32_t row_stride = 1024) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{1} << 16 |
         static_cast<uint64_t>(row_stride >> 4) << 32 | kSwizzle128;
}

// Of B for WgmmaBf16Transposed: the same rows of 128 bytes, each now one k with 64 columns; column_stride: bytes from 64
// columns to the next 64.  address: 1,024-byte aligned.
__device__ __forceinline__ uint64_t transposed_descriptor(uint32_t address, uint32_t column_stride) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(column_stride >> 4) << 16 |
         uint64_t{1024 >> 4} << 32 | kSwizzle128;
}

}  // namespace deepinfer::cuda
