// How many registers the threads of a warpgroup may use (SM90).  Taken by all threads of the warpgroup.
#pragma once

namespace deepinfer::cuda {

template <int Registers>
__device__ __forceinline__ void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

}  // namespace deepinfer::cuda
