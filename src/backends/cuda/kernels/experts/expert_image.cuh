// How rows lie that are the B operand of the kernels for many rows: in the order in which shared memory has them, so
// that bulk copies bring them there.  Groups of 8 rows follow each other; in a group, chunks of 128 columns of 2,048
// bytes each; in a chunk two halves of 1,024 bytes with 128-byte swizzle (device/wgmma.cuh).  Pair i of
// expert_chunks.cuh of a lane's columns lies in half i / 8, 16-byte piece i % 8, word t.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

constexpr int kImageRows = 8;
constexpr int kImageChunkBytes = 2048;

// Of pair i of columns [32 t, 32 t + 32) of a row of the group, within a chunk.
__device__ __forceinline__ int image_offset(int row, int i, int t) {
  return i / 8 * 1024 + row * 128 + ((i % 8) ^ row) * 16 + t * 4;
}

}  // namespace deepinfer::cuda
