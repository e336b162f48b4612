// Programmatic dependent launch (SM90): a kernel is launched while the one before it runs.  It may fetch what no kernel
// writes (weights) at once, and waits before it touches anything else.
#pragma once

namespace deepinfer::cuda {

// The kernel behind this one may be launched as soon as every block has said so or ended.
__device__ __forceinline__ void allow_next_kernel() { asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory"); }
// Waits until the kernels before this one have ended and their writes are visible.
__device__ __forceinline__ void wait_for_previous_kernels() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }

}  // namespace deepinfer::cuda
