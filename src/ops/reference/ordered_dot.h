// Dot products summed strictly in index order, fast enough for whole models: sixteen rows advance side by side, so that
// the compiler can use vector registers without touching the order of any sum.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer::reference {

class OrderedDot {
 public:
  static constexpr int64_t kLanes = 16;

  // Room for `rows` rows of `k` values; what was stored before is gone.
  void resize(int64_t rows, int64_t k);
  int64_t rows() const { return rows_; }

  void set_row(int64_t row, const float* values);  // values [k]

  // out[i] = ((x[0] row_i[0] + x[1] row_i[1]) + x[2] row_i[2]) + ...: products rounded to fp32, then added.  out
  // [rows].
  void multiply(const float* x, float* out) const;

 private:
  int64_t rows_ = 0;
  int64_t k_ = 0;
  std::vector<float> interleaved_;  // [ceil(rows / 16)][k][16]
};

}  // namespace deepinfer::reference
