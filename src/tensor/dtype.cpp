#include "tensor/dtype.h"

namespace deepinfer {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "BOOL";
    case DType::kU8:
      return "U8";
    case DType::kI8:
      return "I8";
    case DType::kF8E4M3:
      return "F8_E4M3";
    case DType::kF8E5M2:
      return "F8_E5M2";
    case DType::kF8E8M0:
      return "F8_E8M0";
    case DType::kF4:
      return "F4";
    case DType::kI16:
      return "I16";
    case DType::kU16:
      return "U16";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI32:
      return "I32";
    case DType::kU32:
      return "U32";
    case DType::kF32:
      return "F32";
    case DType::kI64:
      return "I64";
    case DType::kU64:
      return "U64";
    case DType::kF64:
      return "F64";
  }
  return "?";
}

std::optional<DType> dtype_from_string(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int bits(DType dtype) {
  switch (dtype) {
    case DType::kF4:
      return 4;
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
      return 8;
    case DType::kI16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return 16;
    case DType::kI32:
    case DType::kU32:
    case DType::kF32:
      return 32;
    case DType::kI64:
    case DType::kU64:
    case DType::kF64:
      return 64;
  }
  return 0;
}

}  // namespace deepinfer
