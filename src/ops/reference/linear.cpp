// Matrix products and the FP8 rounding of their inputs.
#include "ops/linear.h"

#include <algorithm>

#include "base/check.h"
#include "ops/reference/ordered_dot.h"
#include "ops/reference/reference.h"
#include "ops/reference/weight_rows.h"
#include "tensor/formats.h"

namespace deepinfer::reference {
namespace {

// Weight rows decoded at a time; every row of x meets them before the next are read.
constexpr int64_t kTileRows = 4 * OrderedDot::kLanes;

// Calls store(row of x, first, count, sums) for each tile of outputs.
template <typename Store>
void multiply(MatrixView<const bf16> x, const LinearWeight& weight, Store store) {
  DI_CHECK(x.columns == weight.k, "the width of x is the weight's k");
  std::vector<float> rows(static_cast<size_t>(x.rows * x.columns));
  for (int64_t m = 0; m < x.rows; ++m) {
    for (int64_t i = 0; i < x.columns; ++i) rows[m * x.columns + i] = to_float(x.row(m)[i]);
  }
  std::vector<float> decoded(static_cast<size_t>(weight.k));
  std::vector<float> sums(kTileRows);
  OrderedDot tile;
  for (int64_t first = 0; x.rows > 0 && first < weight.n; first += kTileRows) {
    const int64_t count = std::min(kTileRows, weight.n - first);
    tile.resize(count, weight.k);
    for (int64_t i = 0; i < count; ++i) {
      decode_weight_row(weight, first + i, decoded.data());
      tile.set_row(i, decoded.data());
    }
    for (int64_t m = 0; m < x.rows; ++m) {
      tile.multiply(rows.data() + m * x.columns, sums.data());
      store(m, first, count, sums.data());
    }
  }
}

void multiply_to_bf16(MatrixView<const bf16> x, const LinearWeight& weight, MatrixView<bf16> y) {
  DI_CHECK(y.rows == x.rows && y.columns == weight.n, "y is [rows of x, n]");
  multiply(x, weight, [&](int64_t m, int64_t first, int64_t count, const float* sums) {
    for (int64_t i = 0; i < count; ++i) y.row(m)[first + i] = to_bf16(sums[i]);
  });
}

}  // namespace

void quantize_activation(const QuantizeActivation& op) {
  DI_CHECK(op.x.columns % kFp8Group == 0, "activations are rounded in groups of 32");
  std::vector<uint8_t> record(static_cast<size_t>(fp8_record_bytes(op.x.columns)));
  for (int64_t m = 0; m < op.x.rows; ++m) {
    encode_fp8_row(op.x.row(m), op.x.columns, record.data());
    decode_fp8_row(record.data(), op.x.columns, op.y.row(m));
  }
}

void matmul(const Matmul& op) {
  if (op.x.rows == 0) return;  // y may then be a view of nothing
  DI_CHECK((op.y.data == nullptr) != (op.y32.data == nullptr), "exactly one of y and y32 has data");
  if (op.y.data != nullptr) {
    multiply_to_bf16(op.x, op.weight, op.y);
    return;
  }
  DI_CHECK(op.y32.rows == op.x.rows && op.y32.columns == op.weight.n, "y32 is [rows of x, n]");
  multiply(op.x, op.weight, [&](int64_t m, int64_t first, int64_t count, const float* sums) {
    std::copy_n(sums, count, op.y32.row(m) + first);
  });
}

void grouped_matmul(const GroupedMatmul& op) {
  DI_CHECK(op.weight.n % op.groups == 0, "every group has the same number of outputs");
  const int64_t k = op.weight.k;
  const int64_t n = op.weight.n / op.groups;
  for (int64_t g = 0; g < op.groups; ++g) {
    multiply_to_bf16(op.x.columns_from(g * k, k), op.weight.rows(g * n, n), op.y.columns_from(g * n, n));
  }
  if (op.quantize) quantize_activation({op.y, op.y});
}

}  // namespace deepinfer::reference
