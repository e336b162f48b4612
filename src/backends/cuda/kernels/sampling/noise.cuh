// The arithmetic of the sampler, to the bit (specs/dspark.md 5.2b): the same operations as
// ops/reference/sampling_noise.h.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// x = 2^k (1 + r), r in [-1/4, 1/2), exact; x is positive and normal.
struct LogParts {
  float k, r;
};

__device__ __forceinline__ LogParts log_parts(float x) {
  const auto bits = static_cast<int32_t>(__float_as_uint(x));
  const int32_t k = (bits - 0x3f400000) >> 23;
  return {static_cast<float>(k),
          __fadd_rn(__uint_as_float(static_cast<uint32_t>(bits) - (static_cast<uint32_t>(k) << 23)), -1.0f)};
}

// ln(2^k (1 + r)).
__device__ __forceinline__ float ln(LogParts parts) {
  const float r = parts.r;
  float y = -0x1.71a206p-5f;
  y = __fmaf_rn(y, r, 0x1.acd728p-4f);
  y = __fmaf_rn(y, r, -0x1.0d9942p-3f);
  y = __fmaf_rn(y, r, 0x1.2883bep-3f);
  y = __fmaf_rn(y, r, -0x1.54ee28p-3f);
  y = __fmaf_rn(y, r, 0x1.99697ap-3f);
  y = __fmaf_rn(y, r, -0x1.000046p-2f);
  y = __fmaf_rn(y, r, 0x1.5555a4p-2f);
  y = __fmaf_rn(y, r, -0x1p-1f);
  return __fmaf_rn(parts.k, 0x1.62e43p-1f, __fmaf_rn(__fmul_rn(r, r), y, r));
}

// -ln(-ln u), u = (word + 1/2) / 2^32.
__device__ __forceinline__ float gumbel(uint32_t word) {
  const bool high = word >= 0x80000000u;
  const auto m = static_cast<int32_t>(high ? ~word : word);
  const float x = __fmaf_rn(static_cast<float>(m), 0x1p-32f, 0x1p-33f);  // u, or 1 - u
  LogParts parts = log_parts(x);
  if (high) parts = x > 0.25f ? LogParts{-1.0f, __fmaf_rn(x, -2.0f, 1.0f)} : LogParts{0.0f, -x};
  return -ln(log_parts(-ln(parts)));
}

// e^d for d <= 0; 0 below -80.
__device__ __forceinline__ float exp_weight(float d) {
  if (d < -80.0f) return 0.0f;
  const float n = __fadd_rn(__fmaf_rn(d, 0x1.715476p+0f, 12582912.0f), -12582912.0f);
  const float g = __fmaf_rn(n, -0x1.62e43p-1f, d);
  float y = 0x1.6a4f52p-10f;
  y = __fmaf_rn(y, g, 0x1.12397ep-7f);
  y = __fmaf_rn(y, g, 0x1.5558aep-5f);
  y = __fmaf_rn(y, g, 0x1.555492p-3f);
  y = __fmaf_rn(y, g, 0x1.fffffcp-2f);
  const float e = __fadd_rn(__fmaf_rn(__fmul_rn(g, g), y, g), 1.0f);
  const uint32_t exponent = static_cast<uint32_t>(static_cast<int32_t>(n)) << 23;
  return __uint_as_float(__float_as_uint(e) + exponent);
}

// trunc(weight * 2^40).
__device__ __forceinline__ unsigned long long weight_mass(float weight) {
  return static_cast<unsigned long long>(static_cast<double>(weight) * 0x1p40);
}

struct NoiseWords {
  uint32_t word[4];
};

// Philox4x32-10: the random words of the tokens 4 * block to 4 * block + 3.
__device__ __forceinline__ NoiseWords noise_words(uint64_t seed, int64_t position, uint32_t stream, uint32_t block) {
  uint32_t c0 = block, c1 = static_cast<uint32_t>(position), c2 = stream, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = static_cast<uint64_t>(c0) * 0xd2511f53u, q = static_cast<uint64_t>(c2) * 0xcd9e8d57u;
    const uint32_t n0 = static_cast<uint32_t>(q >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(p >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(q);
    c3 = static_cast<uint32_t>(p);
    c0 = n0;
    c2 = n2;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace deepinfer::cuda
