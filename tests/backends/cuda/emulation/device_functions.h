// The language of kernels as plain C++: qualifiers, built-in variables and functions that src/backends/cuda uses.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fibers.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

inline const deepinfer::emulation::Index& threadIdx = deepinfer::emulation::running_place.thread;
inline const deepinfer::emulation::Index& blockIdx = deepinfer::emulation::running_place.block;
inline const deepinfer::emulation::Index& blockDim = deepinfer::emulation::running_place.block_size;
inline const deepinfer::emulation::Index& gridDim = deepinfer::emulation::running_place.grid_size;

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

namespace deepinfer {
// Functions that CUDA has in the global namespace; kernels call them without a qualifier.
namespace cuda {
using std::isnan;
template <typename T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
inline T max(T a, T b) {
  return a < b ? b : a;
}
}  // namespace cuda
}  // namespace deepinfer

inline float __uint_as_float(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline uint32_t __float_as_uint(float value) {
  return std::bit_cast<uint32_t>(value);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline double __ull2double_rn(unsigned long long value) {
  return static_cast<double>(value);
}
inline float __ull2float_rn(unsigned long long value) {
  return static_cast<float>(value);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}
inline int __popc(unsigned value) {
  return std::popcount(value);
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i));
  return c;
}

inline void __syncthreads() {
  deepinfer::emulation::block_barrier();
}
inline void __syncwarp() {
  deepinfer::emulation::warp_collective("", 1, [](std::byte*) {});
}
namespace deepinfer::emulation {
template <typename T>
T from_lane(T value, int lane) {
  const std::byte* values = warp_collective(&value, sizeof value, [](std::byte*) {});
  std::memcpy(&value, values + static_cast<size_t>(lane) * sizeof value, sizeof value);
  return value;
}
}  // namespace deepinfer::emulation
inline void __threadfence() {}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return deepinfer::emulation::from_lane(value, lane);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return deepinfer::emulation::from_lane(value, deepinfer::emulation::lane() ^ mask);
}
template <typename T>
T __shfl_down_sync(unsigned, T value, int distance) {
  const int lane = deepinfer::emulation::lane();
  return deepinfer::emulation::from_lane(value, lane + distance < 32 ? lane + distance : lane);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const std::byte* votes = deepinfer::emulation::warp_collective(&vote, 1, [](std::byte*) {});
  unsigned lanes = 0;
  for (int i = 0; i < 32; ++i) lanes |= static_cast<unsigned>(votes[i] != std::byte{0}) << i;
  return lanes;
}
namespace deepinfer::emulation {
template <typename T, typename Choose>
T reduce(T value, Choose choose) {
  const std::byte* values = warp_collective(&value, sizeof value, [](std::byte*) {});
  for (size_t lane = 0; lane < 32; ++lane) {
    T other;
    std::memcpy(&other, values + lane * sizeof other, sizeof other);
    value = choose(value, other);
  }
  return value;
}
}  // namespace deepinfer::emulation
template <typename T>
T __reduce_max_sync(unsigned, T value) {
  return deepinfer::emulation::reduce(value, [](T a, T b) { return a < b ? b : a; });
}
template <typename T>
T __reduce_min_sync(unsigned, T value) {
  return deepinfer::emulation::reduce(value, [](T a, T b) { return b < a ? b : a; });
}
template <typename T>
T atomicAdd(T* at, T value) {  // fibers never run at the same time
  const T before = *at;
  *at += value;
  return before;
}
