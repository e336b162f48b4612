// Blocks of a cluster (SM90): they run at the same time and reach each other's shared memory.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ uint32_t cluster_blocks() {
  uint32_t blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;\n" : "=r"(blocks));
  return blocks;
}
// All threads of the cluster; shared memory written before is visible behind it.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
// The two halves of cluster_sync().
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory"); }
// The same, but only the initialisation of barriers (bulk_copy.cuh) is ordered: release would wait for every copy that
// is on its way.
__device__ __forceinline__ void cluster_arrive_for_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void cluster_wait_for_barriers() { asm volatile("barrier.cluster.wait.aligned;\n" ::: "memory"); }

// The address in the cluster of what lies at the shared address `shared` in its block `block`.
__device__ __forceinline__ uint32_t cluster_address(uint32_t shared, uint32_t block) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(address) : "r"(shared), "r"(block));
  return address;
}
__device__ __forceinline__ void store_in_cluster(uint32_t address, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;\n" ::"r"(address), "f"(value) : "memory");
}
// Stores there and counts 4 bytes on a barrier of the same block.
__device__ __forceinline__ void store_in_cluster(uint32_t address, float value, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];\n" ::"r"(address),
               "r"(__float_as_uint(value)), "r"(barrier)
               : "memory");
}
// Arrives at a barrier of another block: what the thread has read there may be overwritten.
__device__ __forceinline__ void arrive_in_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// From this block's shared memory to a block of the cluster, completing on a barrier there; bytes and addresses are
// multiples of 16.
__device__ __forceinline__ void bulk_copy_in_cluster(uint32_t to_address, uint32_t from_shared, uint32_t bytes,
                                                     uint32_t barrier_address) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to_address),
      "r"(from_shared), "r"(bytes), "r"(barrier_address)
      : "memory");
}
// Arrives at the barrier at the same address in a block of the cluster.  Orders nothing but reads of shared memory that
// have ended: a release for the whole cluster would be a fence of the whole GPU.
__device__ __forceinline__ void barrier_arrive_in_cluster(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// Copies to the same shared address of every block whose bit is set in `blocks`, completing on the barrier at the same
// address there (bulk_copy.cuh).
__device__ __forceinline__ void bulk_copy_to_cluster(uint32_t shared, const void* global, uint32_t bytes,
                                                     uint32_t barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;\n" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace deepinfer::cuda
