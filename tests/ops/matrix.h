// Matrix: an owning counterpart of MatrixView for tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/matrix.h"

namespace deepinfer {

template <typename T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t columns, T value = {})
      : rows_(rows), columns_(columns), values_(static_cast<size_t>(rows * columns), value) {}
  Matrix(std::span<const T> values, int64_t columns)
      : rows_(static_cast<int64_t>(values.size()) / columns),
        columns_(columns),
        values_(values.begin(), values.end()) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  T* row(int64_t i) { return values_.data() + i * columns_; }
  const T* row(int64_t i) const { return values_.data() + i * columns_; }
  MatrixView<T> view() { return {values_.data(), rows_, columns_}; }
  MatrixView<const T> view() const { return {values_.data(), rows_, columns_}; }
  std::span<const T> values() const { return values_; }
  std::span<T> values() { return values_; }
  std::span<const T> row_values(int64_t i) const { return {row(i), static_cast<size_t>(columns_)}; }

 private:
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  std::vector<T> values_;
};

}  // namespace deepinfer
