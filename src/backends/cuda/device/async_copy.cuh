// cp.async: copies of a thread from global to shared memory that end later.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// What lies behind it up to the next 256-byte boundary comes into the L2 at once.
__device__ __forceinline__ void async_copy_16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;\n" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void async_copy_4(uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(shared), "l"(global) : "memory");
}
// Ends a group: the thread's copies since the last one.
__device__ __forceinline__ void async_copies_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most Pending of the thread's groups are unfinished.
template <int Pending>
__device__ __forceinline__ void async_copies_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}
// One of the barrier's arrivals, once all copies of the thread so far have ended.
__device__ __forceinline__ void barrier_arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
}

}  // namespace deepinfer::cuda
