// Suites of whole-model tests that run on every backend.  reference_*_test.cpp and cpu_*_test.cpp instantiate them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "ops/ops_backend.h"

namespace deepinfer {

// A backend and how much of a suite it runs: the reference is slow.
struct ModelCase {
  OpsBackend backend;
  int64_t tokens = 0;                // of the prompts that exactness tests use
  std::vector<int64_t> chunks;       // chunk sizes tried
  std::vector<std::string> prompts;  // of tests/data/model/forward
};

inline std::ostream& operator<<(std::ostream& out, const ModelCase& c) {
  return out << c.backend.name << c.tokens;
}
inline std::string model_case_name(const testing::TestParamInfo<ModelCase>& info) {
  return info.param.backend.name + "_" + std::to_string(info.param.tokens);
}

// Against tests/data/model/forward (golden_model_suite.cpp).
class GoldenModel : public testing::TestWithParam<ModelCase> {};
// The bits do not depend on how a sequence is cut into steps (exact_model_suite.cpp).
class ExactModel : public testing::TestWithParam<ModelCase> {};

}  // namespace deepinfer
