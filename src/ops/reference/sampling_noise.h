// The arithmetic of the position-keyed sampler, to the bit (specs/dspark.md 5.2b): noise from random words, weights and
// logarithms.  Integer operations and single fp32 operations only; std::fma has one rounding.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace deepinfer::reference {

inline constexpr float kLn2 = 0x1.62e43p-1f;
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kRoundToInteger =
    12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits

// x = 2^k (1 + r), r in [-1/4, 1/2), exact; x is positive and normal.
struct LogParts {
  float k;
  float r;
};

inline LogParts log_parts(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t k = (bits - 0x3F400000) >> 23;
  return {static_cast<float>(k),
          std::bit_cast<float>(bits - static_cast<int32_t>(static_cast<uint32_t>(k) << 23)) - 1.0f};
}

// ln(2^k (1 + r)).
inline float ln(LogParts parts) {
  constexpr float kLog[] = {-0x1p-1f,       0x1.5555a4p-2f,  -0x1.000046p-2f, 0x1.99697ap-3f, -0x1.54ee28p-3f,
                            0x1.2883bep-3f, -0x1.0d9942p-3f, 0x1.acd728p-4f,  -0x1.71a206p-5f};
  const float r = parts.r;
  float y = kLog[8];
  for (int i = 7; i >= 0; --i) y = std::fma(y, r, kLog[i]);
  return std::fma(parts.k, kLn2, std::fma(r * r, y, r));
}

// -ln(-ln u), u = (word + 1/2) / 2^32.
inline float gumbel(uint32_t word) {
  const bool high = word >= 0x80000000u;
  const auto m = static_cast<int32_t>(high ? ~word : word);
  const float x = std::fma(static_cast<float>(m), 0x1p-32f, 0x1p-33f);  // u, or 1 - u
  LogParts parts = log_parts(x);
  if (high) parts = x > 0.25f ? LogParts{-1.0f, std::fma(x, -2.0f, 1.0f)} : LogParts{0.0f, -x};
  return -ln(log_parts(-ln(parts)));
}

// e^d for d <= 0; 0 below -80.
inline float exp_weight(float d) {
  constexpr float kExp[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558aep-5f, 0x1.12397ep-7f, 0x1.6a4f52p-10f};
  if (d < -80.0f) return 0.0f;
  const float n = std::fma(d, kLog2E, kRoundToInteger) - kRoundToInteger;
  const float g = std::fma(n, -kLn2, d);
  float y = kExp[4];
  for (int i = 3; i >= 0; --i) y = std::fma(y, g, kExp[i]);
  const float e = std::fma(g * g, y, g) + 1.0f;
  const uint32_t exponent = static_cast<uint32_t>(static_cast<int32_t>(n)) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(e) + exponent);
}

// trunc(weight * 2^40): weights as integers, so that their sum has no order.
inline uint64_t weight_mass(float weight) {
  return static_cast<uint64_t>(static_cast<double>(weight) * 0x1p40);
}

// The random words of the tokens 4 * block .. 4 * block + 3.
inline std::array<uint32_t, 4> noise_words(uint64_t seed, int64_t position, uint32_t stream, uint32_t block) {
  return philox4x32({block, static_cast<uint32_t>(position), stream, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

}  // namespace deepinfer::reference
