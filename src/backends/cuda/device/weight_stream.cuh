// Copies of what is read once into shared memory, by the thread that will read it there (SM80), and into the L2 (SM90).
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// 16 bytes, both addresses on 16-byte boundaries; past the L1, the L2 fetches whole lines.
__device__ __forceinline__ void copy_async(uint32_t shared, const uint8_t* global) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;\n" ::"r"(shared), "l"(global) : "memory");
}
// Ends a group: the thread's copies since the last one.
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most Pending of the thread's groups are unfinished.
template <int Pending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}
__device__ __forceinline__ uint4 load_shared(uint32_t shared) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(shared)
               : "memory");
  return v;
}
// Asks the L2 for bytes, a multiple of 16 on a 16-byte boundary.
__device__ __forceinline__ void prefetch_into_l2(const uint8_t* p, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(p), "r"(bytes) : "memory");
}

}  // namespace deepinfer::cuda
