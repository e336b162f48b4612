// The kernels of the avx2 and avx512 paths, for their tables; contracts in product_kernels.h.  Kernel sources only.
#pragma once

#include "backends/cpu/products/lanes.h"
#include "backends/cpu/products/product_kernels.h"

namespace deepinfer::cpu::DI_SIMD_NAMESPACE {

int64_t packed_columns(WeightFormat format, int64_t k);
void pack(WeightFormat format, const uint16_t* const* rows, int count, int64_t k, uint16_t* tile);

// One activation row: weights go from memory through registers into the sums.
void multiply_row(const WeightBlock& weight, const uint16_t* packed, float* out, float* x);
// Floats of x for multiply_row.
int64_t row_scratch_floats(int64_t k);

// 2 .. most_few_rows rows: weights are decoded in registers and meet up to eight rows there.  Where more rows meet them
// they are decoded again, which with AVX-512 pays longer than storing them as a panel does.
constexpr int64_t most_few_rows(WeightFormat format) {
  if (kWidth < 16 || format == WeightFormat::kBf16) return 8;
  return format == WeightFormat::kFp4 ? 24 : 12;
}
void multiply_few(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                  float* scratch);
int64_t few_scratch_floats();

// More rows: a panel of weights is decoded once for all of them.
void multiply_panel(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                    float* scratch);
int64_t panel_scratch_floats();

void round_row(const float* x, int64_t count, uint16_t* y);
void add_row(const uint16_t* x, int64_t count, float* sum);
void expert_hidden(const uint16_t* g, const uint16_t* u, int64_t count, float limit, float weight, uint16_t* h);

// 2^(scale - 127 + 8): what an e4m3 code's fp16 image (decode_fp8) is multiplied by.  Scales above 2^119 count as
// 2^119.
DI_LANE float fp8_factor(uint8_t scale) {
  const uint32_t exponent = scale > 246 ? 254u : scale + 8u;
  return __builtin_bit_cast(float, exponent << 23);
}

}  // namespace deepinfer::cpu::DI_SIMD_NAMESPACE
