// In place of src/backends/cuda/device/mma.cuh: the fragments as described there; each sum of 16 products and the value
// before it is exact in double precision up to its last rounding.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "cuda_runtime_api.h"

namespace deepinfer::cuda {

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Lane {
    float d[4];
    uint32_t a[4], b[2];
  };
  Lane own;
  std::memcpy(own.d, d, sizeof own.d);
  std::memcpy(own.a, a, sizeof own.a);
  own.b[0] = b0;
  own.b[1] = b1;
  const std::byte* values = emulation::warp_collective(&own, sizeof own, [](std::byte* all) {
    auto* lanes = reinterpret_cast<Lane*>(all);
    float m_side[16][16], n_side[16][8];
    const auto half = [](uint32_t pair, int i) {
      return std::bit_cast<float>(i == 0 ? pair << 16 : pair & 0xffff0000u);
    };
    for (int l = 0; l < 32; ++l)
      for (int h = 0; h < 2; ++h)
        for (int c = 0; c < 2; ++c) {
          const int k = 8 * h + 2 * (l % 4) + c;
          for (int i = 0; i < 2; ++i) m_side[l / 4 + 8 * i][k] = half(lanes[l].a[2 * h + i], c);
          n_side[k][l / 4] = half(lanes[l].b[h], c);
        }
    double sums[16][8];
    for (int l = 0; l < 32; ++l)
      for (int r = 0; r < 4; ++r) sums[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2] = lanes[l].d[r];
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < 16; ++k)
        for (int n = 0; n < 8; ++n) sums[m][n] += static_cast<double>(m_side[m][k]) * n_side[k][n];
    for (int l = 0; l < 32; ++l)
      for (int r = 0; r < 4; ++r) lanes[l].d[r] = static_cast<float>(sums[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2]);
  });
  std::memcpy(d, values + static_cast<size_t>(emulation::lane()) * sizeof own, sizeof own.d);
}

}  // namespace deepinfer::cuda
