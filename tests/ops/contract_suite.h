// Corners of the operations' contracts (src/ops/*.h) that the goldens do not reach: ties, empty inputs, hidden rows,
// signs of zero, large positions.  The backend is the parameter (ops_backend.h says how to instantiate).
#pragma once

#include "ops/ops_backend.h"

namespace deepinfer {

class OpsContract : public testing::TestWithParam<OpsBackend> {
 protected:
  void SetUp() override {
    ops_ = GetParam().make();
    ASSERT_TRUE(ops_->prepare(test_limits()).ok());
  }
  std::unique_ptr<Ops> ops_;
};

}  // namespace deepinfer
