// Sums of values divided by the denominators, into o.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backends/cuda/device/bf16.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/attention/record_channels.cuh"
#include "backends/cuda/kernels/attention/sm90_shape.cuh"

namespace deepinfer::cuda::row_attention {

// Threads that multiply.
template <typename S>
__device__ __forceinline__ void store_output(const float (&values)[S::kGroupChannels / 2],
                                             const MatrixView<bf16>& output, int64_t q_row, const Place<S>& place) {
  const auto denominators = place.denominators;
  const auto lane = place.lane;
  const auto group = place.group;
  const auto rank = place.rank;
  const auto head = place.head;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // Rounded once: the remainder of a first quotient corrects it (Markstein).
    const float denominator = denominators[head + 8 * i], reciprocal = __frcp_rn(denominator);
    const auto quotient = [&](float value) {
      const float numerator = value * kStoredFactor, first = numerator * reciprocal;
      return reciprocal == 0 ? 0.0f : __fmaf_rn(__fmaf_rn(-first, denominator, numerator), reciprocal, first);
    };
    bf16* o = row_of(output, q_row) + (head + 8 * i) * kHeadDim + rank * S::kChannels + group * S::kGroupChannels +
              lane % 2 * 4 + lane % 4 / 2 * 2;
#pragma unroll
    for (int j = 0; j < S::kGroupChannels / 8; ++j) {
      // Channels i and i + 4 are here, the next two in the lane beside: i and i + 1 to one, i + 4 and i + 5 to the
      // other.
      const __nv_bfloat162 two =
          __floats2bfloat162_rn(quotient(values[4 * j + 2 * i]), quotient(values[4 * j + 2 * i + 1]));
      const uint32_t mine = reinterpret_cast<const uint32_t&>(two), beside = __shfl_xor_sync(kAllLanes, mine, 1);
      *reinterpret_cast<uint32_t*>(o + 8 * j) =
          lane % 2 == 0 ? __byte_perm(mine, beside, 0x5410) : __byte_perm(beside, mine, 0x7632);
    }
  }
}

}  // namespace deepinfer::cuda::row_attention
