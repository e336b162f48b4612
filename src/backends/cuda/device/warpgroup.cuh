// Warpgroups of a block (SM90): 128 threads each, with registers and barriers of their own.
#pragma once

namespace deepinfer::cuda {

// Sets how many registers each thread of the warpgroup has; those given up go to warpgroups that ask for more.
template <int kCount>
__device__ __forceinline__ void take_registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kCount));
}

// A barrier of the 128 threads of the warpgroup.
__device__ __forceinline__ void warpgroup_sync(int warpgroup) {
  asm volatile("bar.sync %0, 128;\n" ::"r"(warpgroup + 1) : "memory");
}

}  // namespace deepinfer::cuda
