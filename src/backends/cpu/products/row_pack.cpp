// Activation order of the avx2 and avx512 paths.  FP8 and bf16 weights meet the columns in natural order (their
// decoders split even and odd columns, and so does widen_pairs); FP4 decoders give a fixed permutation of a step's
// columns.
#include "backends/cpu/products/row_products.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

// A whole step of kFp4Step columns.
DI_LANE void pack_fp4_step(const uint16_t* x, uint16_t* y) {
#if defined(__AVX512F__)
  // Vector j of the decoder holds the columns 8d + j of the dwords d of the codes.  widen_pairs takes two vectors from
  // a row of pairs: the columns 8d + 2j and 8d + 2j + 1 for all d.
  alignas(64) uint32_t pairs[kFp4Step / 2];
  __builtin_memcpy(pairs, x, sizeof(pairs));
  alignas(64) uint32_t to[kFp4Step / 2];
  for (int j = 0; j < 4; ++j) {
    for (int d = 0; d < 16; ++d) to[16 * j + d] = pairs[4 * d + j];
  }
  __builtin_memcpy(y, to, sizeof(to));
#else
  // Lanes are groups of 32 columns; of each the bytes 0-7 and then 8-15, their lower nibbles before their upper ones.
  for (int lane = 0; lane < 2; ++lane) {
    for (int half = 0; half < 2; ++half) {
      const uint16_t* from = x + 32 * lane + 16 * half;
      uint16_t* to = y + 32 * half + 8 * lane;
      for (int byte = 0; byte < 8; ++byte) {
        to[byte] = from[2 * byte];
        to[16 + byte] = from[2 * byte + 1];
      }
    }
  }
#endif
}

void pack_fp4(const uint16_t* x, int64_t k, uint16_t* y) {
  int64_t step = 0;
  for (; step + kFp4Step <= k; step += kFp4Step) pack_fp4_step(x + step, y + step);
  if (step == k) return;
  uint16_t last[kFp4Step] = {};
  __builtin_memcpy(last, x + step, static_cast<size_t>(k - step) * sizeof(uint16_t));
  pack_fp4_step(last, y + step);
}

}  // namespace

int64_t packed_columns(WeightFormat format, int64_t k) {
  return format == WeightFormat::kFp4 ? (k + kFp4Step - 1) / kFp4Step * kFp4Step : k;
}

void pack(WeightFormat format, const uint16_t* const* rows, int count, int64_t k, uint16_t* tile) {
  const int64_t columns = packed_columns(format, k);
  for (int i = 0; i < count; ++i) {
    uint16_t* y = tile + i * columns;
    if (format == WeightFormat::kFp4) {
      pack_fp4(rows[i], k, y);
    } else {
      __builtin_memcpy(y, rows[i], static_cast<size_t>(k) * sizeof(uint16_t));
    }
  }
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
