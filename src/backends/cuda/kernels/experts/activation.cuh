// The clamped SwiGLU of an expert, ops/moe.h.
#pragma once

namespace deepinfer::cuda {

__device__ __forceinline__ float activated(float g, float u, float limit, float weight) {
  const float gate = fminf(g, limit);
  return gate / (1.0f + expf(-gate)) * fminf(fmaxf(u, -limit), limit) * weight;
}

}  // namespace deepinfer::cuda
