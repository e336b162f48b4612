// Shape and TensorView: a checkpoint tensor as it lies in memory.  A view never owns its bytes; what it points into (a
// Checkpoint, a Buffer) must outlive it.  Operations take MatrixView (matrix.h); models turn one into the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "tensor/dtype.h"

namespace deepinfer {

// Dimensions, outermost first; no dimension at all is a scalar with one element.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    DI_CHECK(dims.size() <= kMaxRank, "a Shape has at most 8 dimensions");
    for (const int64_t dim : dims) {
      DI_CHECK(dim >= 0, "a dimension is not negative");
      dims_[rank_++] = dim;
    }
  }

  int rank() const { return static_cast<int>(rank_); }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), rank_}; }
  // The product.  The caller (for a checkpoint: its reader) has made sure that it does not overflow.
  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t dim : dims()) product *= dim;
    return product;
  }
  friend bool operator==(const Shape&, const Shape&) = default;  // unused dimensions are always 0

 private:
  std::array<int64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[24, 1024]", "[]"

// Whether elements stored as `dtype` may be read as T: float is F32, bf16 is BF16, uint8_t any one-byte type and packed
// FP4, other integers the type of their size and sign.
template <typename T>
constexpr bool stores(DType dtype) {
  using Value = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Value, float>) return dtype == DType::kF32;
  if constexpr (std::is_same_v<Value, double>) return dtype == DType::kF64;
  if constexpr (std::is_same_v<Value, bf16>) return dtype == DType::kBF16;
  if constexpr (std::is_same_v<Value, uint8_t> || std::is_same_v<Value, std::byte>) {
    return dtype == DType::kBool || dtype == DType::kU8 || dtype == DType::kI8 || dtype == DType::kF8E4M3 ||
           dtype == DType::kF8E5M2 || dtype == DType::kF8E8M0 || dtype == DType::kF4;
  }
  if constexpr (std::is_same_v<Value, int8_t>) return dtype == DType::kI8;
  if constexpr (std::is_same_v<Value, int16_t>) return dtype == DType::kI16;
  if constexpr (std::is_same_v<Value, uint16_t>) return dtype == DType::kU16;
  if constexpr (std::is_same_v<Value, int32_t>) return dtype == DType::kI32;
  if constexpr (std::is_same_v<Value, uint32_t>) return dtype == DType::kU32;
  if constexpr (std::is_same_v<Value, int64_t>) return dtype == DType::kI64;
  if constexpr (std::is_same_v<Value, uint64_t>) return dtype == DType::kU64;
  return false;
}

struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kU8;
  Shape shape;

  uint64_t bytes() const { return (static_cast<uint64_t>(shape.elements()) * static_cast<uint64_t>(bits(dtype))) / 8; }
  bool aligned_to(size_t alignment) const { return reinterpret_cast<uintptr_t>(data) % alignment == 0; }

  // The elements, row-major.  T fits the dtype and the data is aligned for T: Checkpoint::require has checked both.
  template <typename T>
  const T* as() const {
    DI_CHECK(stores<T>(dtype), "tensor of " + std::string(to_string(dtype)) + " read as another type");
    DI_CHECK(aligned_to(alignof(T)), "tensor data is not aligned for its type");
    return reinterpret_cast<const T*>(data);
  }
};

}  // namespace deepinfer
