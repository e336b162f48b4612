// Programmatic dependent launch (SM90): a kernel is launched while the one before it runs.  It may fetch what no kernel
// writes (weights) at once, and waits before it touches anything else.  Every kernel that is launched early waits, in
// every thread: a kernel has ended only when those before it have, so that the wait covers all of them.  Compiled for
// older GPUs these do nothing, and no kernel is launched early (launch/kernel_limits.h).
#pragma once

namespace deepinfer::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// The kernel behind this one may be launched as soon as every block has said so or ended.
__device__ __forceinline__ void allow_next_kernel() { asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory"); }
// Waits until the kernels before this one have ended and their writes are visible.
__device__ __forceinline__ void wait_for_previous_kernels() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }
#else
__device__ __forceinline__ void allow_next_kernel() {}
__device__ __forceinline__ void wait_for_previous_kernels() {}
#endif

// The first statement of a kernel that has nothing to fetch before: its launch overlaps the end of the one before it.
__device__ __forceinline__ void follow_previous_kernels() {
  wait_for_previous_kernels();
  allow_next_kernel();
}

}  // namespace deepinfer::cuda
