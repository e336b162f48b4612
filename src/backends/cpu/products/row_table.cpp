// The tables of the avx2 and avx512 paths, and the tables of values that AVX2 decodes FP4 with.
#include "backends/cpu/products/row_products.h"

#define DI_TABLE_NAME_OF(isa) product_kernels_##isa
#define DI_TABLE_NAME(isa) DI_TABLE_NAME_OF(isa)

namespace deepinfer::cpu {
namespace DI_SIMD_NAMESPACE {
namespace {

#if !defined(__AVX512F__)
struct Fp4TableSet {
  Fp4Table of_scale[256];
};

// Magnitudes of e2m1 as (exponent, bf16 fraction): 2^exponent (1 + fraction / 128); code 0 apart.
constexpr int kExponent[8] = {0, -1, 0, 0, 1, 1, 2, 2};
constexpr int kFraction[8] = {0, 0, 0, 64, 0, 64, 0, 64};

constexpr uint16_t scaled_value(int code, int scale) {
  const int magnitude = code & 7;
  const uint16_t sign = static_cast<uint16_t>((code & 8) << 12);
  if (magnitude == 0) return sign;
  if (scale == 255) return 0x7FC0;  // NaN
  const int exponent = kExponent[magnitude] + scale;
  if (exponent >= 255) return static_cast<uint16_t>(sign | 0x7F80);  // beyond fp32: infinity
  if (exponent > 0) return static_cast<uint16_t>(sign | exponent << 7 | kFraction[magnitude]);
  return static_cast<uint16_t>(sign | (128 + kFraction[magnitude]) >> (1 - exponent));  // subnormal, still exact
}

constexpr Fp4TableSet make_tables() {
  Fp4TableSet tables{};
  for (int scale = 0; scale < 256; ++scale) {
    for (int code = 0; code < 16; ++code) {
      const uint16_t value = scaled_value(code, scale);
      tables.of_scale[scale].high[code] = static_cast<uint8_t>(value >> 8);
      tables.of_scale[scale].low[code] = static_cast<uint8_t>(value);
    }
  }
  return tables;
}

constexpr Fp4TableSet kTableSet = make_tables();
#endif

constexpr int64_t kBlock = kMaxBlockRows * kMaxBlockOutputs;  // floats: results to be rounded

size_t scratch_bytes(int64_t k) {
  const int64_t row = row_scratch_floats(k), few = few_scratch_floats(), panel = panel_scratch_floats();
  const int64_t rows = row > few ? row : few;
  return static_cast<size_t>(kBlock + (rows > panel ? rows : panel)) * sizeof(float);
}

void multiply_fp32(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                   float* scratch) {
  if (rows == 1) return multiply_row(weight, packed, out, scratch);
  if (rows <= most_few_rows(weight.format)) return multiply_few(weight, packed, rows, out, stride, scratch);
  multiply_panel(weight, packed, rows, out, stride, scratch);
}

void multiply(const WeightBlock& weight, const uint16_t* packed, int64_t rows, const ProductOutput& out,
              std::byte* scratch) {
  auto* memory = reinterpret_cast<float*>(scratch);
  if (out.fp32 != nullptr) return multiply_fp32(weight, packed, rows, out.fp32, out.stride, memory + kBlock);
  multiply_fp32(weight, packed, rows, memory, weight.outputs, memory + kBlock);
  for (int64_t m = 0; m < rows; ++m) round_row(memory + m * weight.outputs, weight.outputs, out.bf16 + m * out.stride);
}

}  // namespace

#if !defined(__AVX512F__)
const Fp4Table* const kFp4Tables = kTableSet.of_scale;
#endif

}  // namespace DI_SIMD_NAMESPACE

const ProductKernels& DI_TABLE_NAME(DI_SIMD_NAMESPACE)() {
  namespace isa = DI_SIMD_NAMESPACE;
  static constexpr ProductKernels kTable = {
      .packed_columns = isa::packed_columns,
      .pack = isa::pack,
      .multiply = isa::multiply,
      .scratch_bytes = isa::scratch_bytes,
      .round_row = isa::round_row,
      .add_row = isa::add_row,
      .expert_hidden = isa::expert_hidden,
  };
  return kTable;
}

}  // namespace deepinfer::cpu
