// Activation order of the avx2 and avx512 paths.  FP8 and bf16 weights meet the columns in natural order (their
// decoders split even and odd columns, and so does widen_pairs); FP4 decoders give a fixed permutation of a step's
// columns.
#include "backends/cpu/products/row_products.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {
namespace {

// The column of a step of kFp4Step that stands at place i of the packed step.
DI_LANE int64_t fp4_column(int64_t i) {
#if defined(__AVX512F__)
  return 8 * (i / 2 % 16) + 2 * (i / 32) +
         i % 2;  // dword i / 2 % 16; two nibbles of each in turn, as widen_pairs takes them
#else
  const int64_t block = i / 16, lane = i / 8 % 2, byte = i % 8;  // blocks: bytes 0-7 even, odd, bytes 8-15 even, odd
  return 32 * lane + 16 * (block / 2) + 2 * byte + block % 2;
#endif
}

void pack_fp4(const uint16_t* x, int64_t k, uint16_t* y) {
  for (int64_t step = 0; step < k; step += kFp4Step) {
    for (int64_t i = 0; i < kFp4Step; ++i) {
      const int64_t column = step + fp4_column(i);
      y[step + i] = column < k ? x[column] : uint16_t{0};
    }
  }
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
