// A backend under test: the parameter of every suite of this folder, so that each backend runs the same tests.
//
// tests/ops/CMakeLists.txt has one library a suite; a program links it and instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(Cpu, GoldenOps, golden_parameters(backends), golden_name);
//   INSTANTIATE_TEST_SUITE_P(Cpu, Sampler, testing::ValuesIn(backends), backend_name);
//   INSTANTIATE_TEST_SUITE_P(Cpu, OpsContract, testing::ValuesIn(backends), backend_name);
//   INSTANTIATE_TEST_SUITE_P(Cpu, RowInvariance, testing::ValuesIn(backends), backend_name);
// with std::vector<OpsBackend> backends = {{"cpu_avx2", [] { return ...; }}, ...}.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "ops/ops.h"

namespace deepinfer {

struct OpsBackend {
  std::string name;  // letters, digits and underscores: it becomes part of the test's name
  std::function<std::unique_ptr<Ops>()> make;
};

inline std::ostream& operator<<(std::ostream& out, const OpsBackend& backend) {
  return out << backend.name;
}
inline std::string backend_name(const testing::TestParamInfo<OpsBackend>& info) {
  return info.param.name;
}

// Large enough for every test of these suites.
inline OpsLimits test_limits() {
  return {.rows = 160,
          .max_k = 6144,
          .max_n = 8192,
          .heads = 64,
          .head_dim = 512,
          .window_size = 128,
          .top_k = 1024,
          .index_heads = 32,
          .candidate_blocks = 2048,
          .max_position = 1 << 20,
          .experts = 384,
          .experts_per_token = 6,
          .expert_width = 2304,
          .hidden = 5120,
          .vocabulary = 129280};
}

}  // namespace deepinfer
