// Addresses of shared memory as instructions name them.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ uint4 load_shared(uint32_t shared) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(shared)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_shared(uint32_t shared, float value) {
  asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(shared), "f"(value) : "memory");
}

// The same value, in a register: what it was computed from is forgotten, so that it is not computed again at each use.
__device__ __forceinline__ uint32_t kept(uint32_t value) {
  uint32_t same;
  asm volatile("mov.b32 %0, %1;\n" : "=r"(same) : "r"(value));
  return same;
}
template <typename T>
__device__ __forceinline__ T* kept(T* pointer) {
  T* same;
  asm volatile("mov.b64 %0, %1;\n" : "=l"(same) : "l"(pointer));
  return same;
}

}  // namespace deepinfer::cuda
