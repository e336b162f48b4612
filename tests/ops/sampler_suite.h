// Tests of Ops::sample, parameterised by backend (ops_backend.h says how to instantiate).
#pragma once

#include "ops/ops_backend.h"

namespace deepinfer {

class Sampler : public testing::TestWithParam<OpsBackend> {
 protected:
  void SetUp() override {
    ops_ = GetParam().make();
    ASSERT_TRUE(ops_->prepare(test_limits()).ok());
  }
  std::unique_ptr<Ops> ops_;
};

}  // namespace deepinfer
