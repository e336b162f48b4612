// "A row alone = the row in any company", bit for bit, for every operation.  The backend is the parameter
// (ops_backend.h says how to instantiate).  Inputs are random, dimensions are those of the full model or a part of
// them.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "ops/matrix.h"
#include "ops/ops_backend.h"

namespace deepinfer {

class RowInvariance : public testing::TestWithParam<OpsBackend> {
 protected:
  void SetUp() override {
    ops_ = GetParam().make();
    ASSERT_TRUE(ops_->prepare(test_limits()).ok());
  }
  std::unique_ptr<Ops> ops_;
};

// What an operation wrote for each row of a step.
using RowBytes = std::vector<std::vector<std::byte>>;

template <typename T>
void append_rows(RowBytes& rows, const Matrix<T>& outputs) {
  rows.resize(static_cast<size_t>(outputs.rows()));
  for (int64_t m = 0; m < outputs.rows(); ++m) {
    const auto* bytes = reinterpret_cast<const std::byte*>(outputs.row(m));
    rows[m].insert(rows[m].end(), bytes, bytes + outputs.columns() * static_cast<int64_t>(sizeof(T)));
  }
}

template <typename T>
Matrix<T> pick_rows(const Matrix<T>& from, std::span<const int64_t> picked) {
  Matrix<T> rows(static_cast<int64_t>(picked.size()), from.columns());
  for (size_t i = 0; i < picked.size(); ++i) {
    std::memcpy(rows.row(static_cast<int64_t>(i)), from.row(picked[i]),
                sizeof(T) * static_cast<size_t>(from.columns()));
  }
  return rows;
}

template <typename T>
std::vector<T> pick(const std::vector<T>& from, std::span<const int64_t> picked) {
  std::vector<T> values;
  for (const int64_t i : picked) values.push_back(from[i]);
  return values;
}

// run(picked) performs the operation on these of `rows` rows, in that order, as one step.  Compares all rows together
// with single rows and with random parts of them in random order.
void expect_rows_independent(int64_t rows, uint64_t seed,
                             const std::function<RowBytes(std::span<const int64_t> picked)>& run);

// Rows of a step that belong to cached sequences.
struct CachedRow {
  int sequence = 0;
  int64_t position = 0;
};

// Neighbours of one sequence at consecutive positions form one run: what a step hands to an operation.
struct RowRun {
  int sequence = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t position = 0;
};
std::vector<RowRun> runs_of(const std::vector<CachedRow>& all, std::span<const int64_t> picked);

}  // namespace deepinfer
