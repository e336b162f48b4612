// The rotation of ops/rope.h.
#pragma once

#include <cstdint>

#include "backends/cuda/device/bf16.cuh"

namespace deepinfer::cuda {

struct Rotation {
  float cos, sin;
};

// Of the fp32 angle, reduced and evaluated in double precision.
__device__ __forceinline__ Rotation rotation_at(int64_t position, float frequency) {
  const double angle = static_cast<float>(position) * frequency;
  double sin = 0, cos = 0;
  sincos(angle, &sin, &cos);
  return {static_cast<float>(cos), static_cast<float>(sin)};
}

struct RotatedPair {
  bf16 first, second;
};
__device__ __forceinline__ RotatedPair rotated(float a, float b, Rotation rotation) {
  return {round_to_bf16(a * rotation.cos - b * rotation.sin), round_to_bf16(a * rotation.sin + b * rotation.cos)};
}
__device__ __forceinline__ void rotate_pair(bf16* pair, Rotation rotation) {
  const RotatedPair to = rotated(widen(pair[0]), widen(pair[1]), rotation);
  pair[0] = to.first;
  pair[1] = to.second;
}

}  // namespace deepinfer::cuda
