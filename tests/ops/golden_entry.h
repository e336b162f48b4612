// One entry of tests/data/model/index.json: recorded inputs and outputs of a model step, and the bounds within which an
// implementation must stay (golden/model/README.md, "Comparing", in short at expect()).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/matrix.h"
#include "tensor/safetensors.h"

namespace deepinfer {

class GoldenEntry {
 public:
  // Of the part "ops".  Aborts when there is none of that name.
  static GoldenEntry ops(const std::string& name);
  static std::vector<std::string> names_of_ops();

  const std::string& name() const { return name_; }

  // Input elements in row-major order.
  template <typename T>
  std::span<const T> in(const std::string& tensor) const {
    return elements<T>(name_ + "/in." + tensor);
  }
  template <typename T>
  MatrixView<const T> in_rows(const std::string& tensor, int64_t columns) const {
    const auto values = in<T>(tensor);
    return {values.data(), static_cast<int64_t>(values.size()) / columns, columns};
  }
  bool has_in(const std::string& tensor) const;
  template <typename T>
  std::span<const T> out(const std::string& tensor) const {
    return elements<T>(name_ + "/out." + tensor);
  }

  // A value may be off by max(4 noise largest, 2^-8 |value| + 2^-10 largest) in bf16 and by max(4 noise, 1e-5) largest
  // in fp32; noise is what the order of summation alone did when the entry was made.  Of bf16 values, 98 in 100 are
  // equal.
  void expect(const std::string& tensor, std::span<const bf16> got) const;
  void expect(const std::string& tensor, std::span<const float> got) const;
  // Whole layers: 1 in 100 bf16 values may lie outside, none by more than 1 % of the largest; fp32 values within 1e-4.
  void expect_layer(const std::string& tensor, std::span<const bf16> got) const;
  void expect_layer(const std::string& tensor, std::span<const float> got) const;
  // Stored records, selections, ids: every element equal.
  template <typename T>
  void expect_equal(const std::string& tensor, std::span<const T> got) const;

 private:
  template <typename T>
  std::span<const T> elements(const std::string& tensor) const;

  std::string name_;
  std::map<std::string, double> noise_;
};

}  // namespace deepinfer
