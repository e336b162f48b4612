// The shared memory whose size the launch names.
#pragma once

#include <cstddef>

namespace deepinfer::cuda {

__device__ __forceinline__ std::byte* dynamic_shared() {
  extern __shared__ __align__(16) std::byte memory[];
  return memory;
}

}  // namespace deepinfer::cuda
