// Element types of checkpoint tensors and of activations.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer {

// Named as in safetensors headers.  FP4 weights are stored as I8: two e2m1 values a byte, low nibble first.
enum class DType : uint8_t { kBool, kU8, kI8, kF8E4M3, kF8E5M2, kF8E8M0, kF4, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kI64, kU64, kF64 };

std::string_view to_string(DType dtype);
std::optional<DType> dtype_from_string(std::string_view name);  // the inverse; nothing for an unknown name
int bits(DType dtype);                                          // of one element: 4 .. 64

// bfloat16: the upper half of a float.
struct bf16 {
  uint16_t bits;
  friend bool operator==(bf16, bf16) = default;  // of bits: -0 differs from +0, a NaN equals itself
};
static_assert(sizeof(bf16) == 2);

inline float to_float(bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

// Round to nearest even; a NaN stays a (quiet) NaN with its sign.
inline bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace deepinfer
