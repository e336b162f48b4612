// Hashed words, for operands that are as hard to multiply as real ones.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

__device__ __forceinline__ uint32_t hashed(uint64_t index) {
  uint64_t x = index * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  return static_cast<uint32_t>(x ^ (x >> 32));
}

}  // namespace deepinfer::cuda
