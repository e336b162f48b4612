// MatrixView: a typed, non-owning, row-major view; the argument type of every operation.
#pragma once

#include <cstdint>
#include <type_traits>

namespace deepinfer {

template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  // elements from one row to the next, >= columns

  MatrixView() = default;
  MatrixView(T* data_, int64_t rows_, int64_t columns_) : MatrixView(data_, rows_, columns_, columns_) {}
  MatrixView(T* data_, int64_t rows_, int64_t columns_, int64_t stride_)
      : data(data_), rows(rows_), columns(columns_), stride(stride_) {}
  // A mutable view converts to a read-only one.
  operator MatrixView<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, rows, columns, stride};
  }

  T* row(int64_t i) const { return data + i * stride; }
  MatrixView rows_from(int64_t first, int64_t count) const { return {row(first), count, columns, stride}; }
  MatrixView columns_from(int64_t first, int64_t count) const { return {data + first, rows, count, stride}; }
};

}  // namespace deepinfer
